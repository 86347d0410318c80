"""What an isolated job cannot do: attempts to leave its isolation, as the user that runs the tests and, where that is root, as another one.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import ctypes
import json
import mmap
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LIBC = ctypes.CDLL(None, use_errno=True)
KEY_USER_KEYRING = -4
HARMLESS = ("read a file of the test in /tmp", "read the tokens of the cluster", "read a file of another job", "read the shared memory of another program",
            "signal a process outside", "read the environment of a process outside", "limits of a process outside", "attach memory of System V",
            "search the user's keyring", "connect to a socket in /tmp")


@unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
@unittest.skipUnless(platform.machine() == "x86_64", "the attempts have the numbers of x86-64's system calls")
class JobIsolation(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)

    def attempt(self, *options, only=None):
        """Runs the attempts in a job, and returns their results by name. `only`: these."""
        other = self.cluster.submit("--no-code", "--", "bash", "-c", "echo of another job > other-job.txt; echo ready; sleep 600")
        wait_until("the other job runs", lambda: "ready" in self.cluster.run("job", "logs", other).stdout)
        (self.cluster.work / "settings.json").write_text(json.dumps({**self.outside(), "only": only}))
        shutil.copy(HERE / "escape_attempts.py", self.cluster.work)
        ran = self.cluster.run("job", "submit", "--follow", *options, "--", "python3", "escape_attempts.py", "settings.json")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return {each["attempt"]: each["denied"] for each in map(json.loads, filter(lambda line: line.startswith("{"), ran.stdout.splitlines()))}

    def outside(self):
        """Makes what the attempts aim at, outside the job."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="volador-outside-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "secret").write_text("secret\n")
        shm = pathlib.Path("/dev/shm") / f"volador-escape-{os.getpid()}"
        shm.write_text("secret\n")
        self.addCleanup(shm.unlink)
        sleeper = subprocess.Popen(["sleep", "600"])
        self.addCleanup(lambda: (sleeper.kill(), sleeper.wait()))
        sockets = {"tmp_socket": folder / "s"}
        run = pathlib.Path("/run") if os.access("/run", os.W_OK) else pathlib.Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere"))
        sockets["run_socket"] = (run if run.is_dir() else folder) / f"volador-escape-{os.getpid()}"
        for path in sockets.values():
            server = socket.socket(socket.AF_UNIX)
            server.bind(str(path))
            server.listen()
            self.addCleanup(server.close)
            self.addCleanup(path.unlink)
        key = LIBC.syscall(248, b"user", b"volador-escape", b"secret", 6, KEY_USER_KEYRING)  # add_key
        if key > 0:
            self.addCleanup(lambda: LIBC.syscall(250, 21, key))  # KEYCTL_INVALIDATE
        shm_key = 0x560 + os.getpid()
        segment = LIBC.shmget(shm_key, mmap.PAGESIZE, 0o1600)
        self.assertGreaterEqual(segment, 0)
        self.addCleanup(lambda: LIBC.shmctl(segment, 0, None))
        clusters = self.cluster.home.path / "volador/clusters/heron"
        token_file = next(file for file in clusters.rglob("*.json"))
        other_file = next(clusters.rglob("other-job.txt"))
        self.assertEqual(other_file.read_text(), "of another job\n")
        return {"pid": sleeper.pid, "tmp_file": str(folder / "secret"), "shm_file": str(shm), "key": key, "shm_key": shm_key,
                "token_file": str(token_file), "head_folder": str(clusters / "head"), "other_job_file": str(other_file),
                **{name: str(path) for name, path in sockets.items()}}

    def test_every_attempt_to_leave_the_isolation_is_denied(self):
        given = self.cluster.home.path / "given"
        given.mkdir()
        results = self.attempt(f"--mount={given}:/given:ro")
        self.assertGreaterEqual(len(results), 60)
        self.assertEqual([name for name, denied in results.items() if denied is None], [])
        self.assertEqual(list(given.iterdir()), [])
        for path in ("/etc/volador-escape", "/usr/bin/volador-escape", "/volador-escape"):
            self.assertFalse(pathlib.Path(path).exists(), path)

    def test_harmless_ones_of_the_attempts_succeed_without_isolation(self):
        """So it is the isolation that denies them."""
        results = self.attempt(only=HARMLESS)
        self.assertEqual(results, dict.fromkeys(HARMLESS))


if __name__ == "__main__":
    unittest.main()
