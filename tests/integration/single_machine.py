"""The real programs on this machine, each test with a VOLADOR_HOME of its own."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ.get("VOLADOR_BIN", "build/bin")).resolve()


def wait_until(what, condition, seconds=60.0):
    """Returns the first true value of `condition`; fails after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


class Home:
    """A HOME and VOLADOR_HOME in a temporary folder, and the processes that run with them."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="vi-", dir="/tmp"))
        self.started = []

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("VOLADOR_")}
        return {**kept, "HOME": str(self.path), "VOLADOR_HOME": str(self.path / "volador"), "NO_COLOR": "1", **more}

    def run(self, *command, timeout=120, umask=-1, limits=None, cwd=None, **environment):
        return subprocess.run([str(part) for part in command], env=self.environment(**environment), capture_output=True, text=True,
                              check=False, timeout=timeout, umask=umask, preexec_fn=limits, cwd=cwd, stdin=subprocess.DEVNULL)

    def start(self, *command, output, limits=None, **environment):
        with open(output, "wb") as file:
            process = subprocess.Popen([str(part) for part in command], env=self.environment(**environment), stdin=subprocess.DEVNULL,
                                       stdout=file, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=limits)
        self.started.append(process)
        return process

    def pids(self):
        """Pids of all processes whose environment names this home."""
        needle = f"VOLADOR_HOME={self.path / 'volador'}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if needle in (entry / "environ").read_bytes().split(b"\0") and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def close(self):
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for process in self.started:
            process.wait()
        shutil.rmtree(self.path, ignore_errors=True)
