"""Commands and shells in running jobs, on one machine with two workers: the real programs, over real terminals.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import VOLADOR, Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402


class TerminalSession:
    """A command of volador whose terminal this program holds."""

    def __init__(self, cluster, *arguments, rows=24, columns=80, **environment):
        self.shown, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(inner)
        self.process = subprocess.Popen([VOLADOR, *arguments], cwd=cluster.work, env=cluster.home.environment(**environment), stdin=inner, stdout=inner,
                                        stderr=inner, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.inner = inner
        self.text = ""

    def type(self, keys):
        os.write(self.shown, keys.encode())

    def read_until(self, words, seconds=60):
        """What was shown up to the words, which are then taken."""
        end = time.monotonic() + seconds
        while words not in self.text:
            ready, _, _ = select.select([self.shown], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"not within {seconds} s: {words!r}; shown: {self.text!r}")
            self.text += os.read(self.shown, 65536).decode(errors="replace")
        at = self.text.index(words) + len(words)
        shown, self.text = self.text[:at], self.text[at:]
        return shown

    def resize(self, rows, columns):
        fcntl.ioctl(self.shown, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self):
        code = self.process.wait(60)
        while select.select([self.shown], [], [], 0)[0]:
            self.text += os.read(self.shown, 65536).decode(errors="replace")
        return code

    def mode_is_restored(self):
        return termios.tcgetattr(self.inner) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.shown)
        os.close(self.inner)


class JobExec(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.job = cls.cluster.submit("--no-code", "--env=WORD=of the job", "--", "sleep", "1000")
        cls.cluster.wait_state(cls.job, "running")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def exec(self, *arguments, job=None, **environment):
        return self.cluster.run("job", "exec", job or self.job, *arguments, **environment)

    def terminal(self, *arguments, **options):
        session = TerminalSession(self.cluster, "job", *arguments, **options)
        self.addCleanup(session.close)
        return session

    def test_output_errors_and_exit_code_come_back(self):
        ran = self.exec("--", "bash", "-c", "echo \"$WORD\"; echo wrong >&2; exit 7")
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (7, "of the job\n", "wrong\n"))
        self.assertEqual(self.exec("--", "true").returncode, 0)
        self.assertEqual(self.exec("--", "bash", "-c", "kill -9 $$").returncode, 137)
        missing = self.exec("--", "no-such-program")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no-such-program: No such file", missing.stderr)
        self.assertEqual(self.exec("--", "test", "-t", "0").returncode, 1)

    def test_input_arrives_and_ends(self):
        for size in (0, 1, 5_000_000):
            ran = subprocess.run([VOLADOR, "job", "exec", "-i", self.job, "--", "wc", "-c"], input=b"x" * size, cwd=self.cluster.work,
                                 env=self.cluster.home.environment(), capture_output=True, check=False, timeout=100)
            self.assertEqual((ran.returncode, ran.stdout.strip()), (0, str(size).encode()), ran.stderr)
        # Without -i there is none.
        self.assertEqual(self.exec("--", "wc", "-c").stdout.strip(), "0")

    def test_much_output_arrives_whole(self):
        with open(self.cluster.work / "out", "wb") as out:
            subprocess.run([VOLADOR, "job", "exec", self.job, "--", "head", "-c", "30000000", "/dev/zero"], stdout=out, cwd=self.cluster.work,
                           env=self.cluster.home.environment(), check=True, timeout=100)
        self.assertEqual((self.cluster.work / "out").stat().st_size, 30_000_000)

    def test_an_interrupt_reaches_the_command(self):
        process = subprocess.Popen([VOLADOR, "job", "exec", self.job, "--", "bash", "-c", "trap 'echo got; exit 5' INT; echo up; sleep 1000 & wait"],
                                   cwd=self.cluster.work, env=self.cluster.home.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=60)[0], "got\n")
        self.assertEqual(process.returncode, 5)

    def test_the_command_ends_with_its_caller(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            marker = f"1000.{os.getpid()}{number.value}"
            process = subprocess.Popen([VOLADOR, "job", "exec", self.job, "--", "bash", "-c", f"echo up; exec sleep {marker}"], cwd=self.cluster.work,
                                       env=self.cluster.home.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "up\n")
            process.send_signal(number)
            self.assertEqual(process.wait(60), 128 + number)
            process.stdout.close()
            wait_until("the command has ended", lambda: subprocess.run(["pgrep", "-f", f"sleep {marker}"], stdout=subprocess.DEVNULL, check=False).returncode == 1)

    def test_a_shell_has_a_terminal_with_job_control(self):
        session = self.terminal("attach", self.job, rows=30, columns=100)
        session.type("tty; stty size; echo \"$TERM $WORD\"\n")
        self.assertRegex(session.read_until("xterm-256color of the job\r\n"), r"/dev/pts/\d+\r\n30 100\r\n")
        session.type("bash -c 'echo u\"\"p; sleep 1000'\n")
        session.read_until("up\r\n")
        session.type("\x03")
        session.type("echo c''ode $?\n")
        session.read_until("code 130\r\n")
        session.resize(40, 120)
        wait_until("the new size is there", lambda: session.type("stty size; echo d''one\n") or "40 120" in session.read_until("done\r\n"))
        session.type("exit 5\n")
        self.assertEqual(session.wait(), 5)
        self.assertTrue(session.mode_is_restored())

    def test_the_end_of_the_terminal_ends_the_shell(self):
        session = self.terminal("attach", self.job)
        session.type("echo p''id $$-\n")
        session.read_until("pid ")
        pid = int(session.read_until("-").strip("-"))
        session.process.send_signal(signal.SIGHUP)
        self.assertEqual(session.wait(), 129)
        wait_until("the shell has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())
        self.assertTrue(session.mode_is_restored())

    def test_a_program_gets_a_terminal(self):
        session = self.terminal("exec", "-t", self.job, "--", "bash", "-c", "read -r -p 'name? ' name; echo \"hello $name\"; exit 3")
        session.read_until("name? ")
        session.type("heron\r")
        session.read_until("hello heron\r\n")
        self.assertEqual(session.wait(), 3)

    @unittest.skipUnless(shutil.which("bwrap"), "bubblewrap is not installed")
    def test_an_isolated_job_is_entered(self):
        job = self.cluster.submit("--no-code", "--isolated", "--", "sleep", "1000")
        self.cluster.wait_state(job, "running")
        ran = self.exec("--", "bash", "-c", "hostname; touch /etc/x 2>/dev/null || echo no; exit 4", job=job)
        self.assertEqual((ran.returncode, ran.stdout), (4, f"{job}-0\nno\n"), ran.stderr)
        session = self.terminal("attach", job)
        session.type("bash -c 'echo u\"\"p; sleep 1000'\n")
        session.read_until("up\r\n")
        session.type("\x03")
        session.type("hostname; echo c''ode $?; set -m; sleep 1000 & jobs\n")
        self.assertIn(f"{job}-0\r\ncode 0\r\n", session.read_until("Running"))
        session.type("exit 6\n")
        session.type("exit 6\n")  # Bash may say first that there are running jobs.
        self.assertEqual(session.wait(), 6)
        self.cluster.must("job", "stop", "--now", job)
        self.cluster.wait_state(job, "stopped")

    def test_only_the_owner_and_operators_get_in(self):
        driver = json.loads(self.cluster.must("token", "create", "--role=driver", "--json"))["token"]
        viewer = json.loads(self.cluster.must("token", "create", "--role=viewer", "--json"))["token"]
        refused = self.exec("--", "true", VOLADOR_TOKEN=driver)
        self.assertEqual(refused.returncode, 5)
        self.assertIn(f"run a command in {self.job}: it was submitted by token", refused.stderr)
        self.assertEqual(self.exec("--", "true", VOLADOR_TOKEN=viewer).returncode, 5)
        own = json.loads(self.cluster.run("job", "submit", "--no-code", "--json", "--", "sleep", "1000", VOLADOR_TOKEN=driver).stdout)["id"]
        self.cluster.wait_state(own, "running")
        entries = json.loads(self.cluster.must("list", "audit", "--json"))["audit"]
        found = {(entry["action"], entry["object"], entry["outcome"]) for entry in entries}
        self.assertIn(("start_command", self.job, "kPermissionDenied"), found)
        for token in (driver, ""):
            self.assertEqual(self.exec("--", "echo", "in", job=own, **({"VOLADOR_TOKEN": token} if token else {})).stdout, "in\n")
        self.cluster.must("job", "stop", "--now", own)
        self.cluster.wait_state(own, "stopped")
        entries = json.loads(self.cluster.must("list", "audit", "--json"))["audit"]
        found = [(entry["action"], entry["object"], entry["outcome"]) for entry in entries]
        self.assertEqual((found.count(("start_command", own, "done")), found.count(("kill_job", own, "done"))), (2, 1))

    def test_what_cannot_be_is_refused_with_the_next_step(self):
        ended = self.cluster.submit("--no-code", "--", "true")
        self.cluster.wait_state(ended, "succeeded")
        waits = self.cluster.submit("--no-code", "--cpus=2", "--node=east", "--", "true")
        self.cluster.must("job", "wait", waits)
        cases = [((ended, "--", "true"), 2, f"run a command in {ended}: it has ended (succeeded)"),
                 ((self.job, "--rank=1", "--", "true"), 2, "rank: expected 0 to 0, got 1"),
                 (("job-999", "--", "true"), 6, "there is no job"),
                 ((self.job,), 2, "which command?"),
                 ((self.job, "-t", "--", "true"), 2, "--terminal needs a terminal")]
        for arguments, code, words in cases:
            with self.subTest(arguments):
                ran = self.cluster.run("job", "exec", *arguments)
                self.assertEqual(ran.returncode, code, ran.stderr)
                self.assertIn(words, ran.stderr)
        self.assertIn("needs a terminal", self.cluster.run("job", "attach", self.job).stderr)

    def test_the_other_rank_is_reached(self):
        job = self.cluster.submit("--no-code", "--nodes=2", "--cpus=0.5", "--", "sleep", "1000")
        self.cluster.wait_state(job, "running")
        nodes = [self.exec(f"--rank={rank}", "--", "bash", "-c", "echo $RANK $VOLADOR_JOB_NODE", job=job).stdout for rank in (0, 1)]
        self.assertEqual([node.split()[0] for node in nodes], ["0", "1"])
        self.assertEqual({node.split()[1] for node in nodes}, {"east", "west"})
        self.cluster.must("job", "stop", "--now", job)
        self.cluster.wait_state(job, "stopped")


class JobExecFaults(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)

    def attach(self, job, *options):
        session = TerminalSession(self.cluster, "job", "attach", *options, job)
        self.addCleanup(session.close)
        session.type("echo p''id $$-\n")
        session.read_until("pid ")
        return session, int(session.read_until("-").strip("-"))

    def test_the_end_of_the_job_ends_the_shell_and_leaves_nothing(self):
        job = self.cluster.submit("--no-code", "--", "sleep", "1000")
        self.cluster.wait_state(job, "running")
        session, pid = self.attach(job)
        session.type("trap '' HUP TERM; sleep 1234 & echo k''id $!-\n")
        session.read_until("kid ")
        child = int(session.read_until("-").strip("-"))
        self.cluster.must("job", "stop", "--now", job)
        self.assertEqual(session.wait(), 1)
        self.assertIn("rank 0", session.text)
        self.assertTrue(session.mode_is_restored())
        self.cluster.wait_state(job, "stopped")
        for process in (pid, child):
            wait_until(f"process {process} has ended", lambda process=process: not pathlib.Path(f"/proc/{process}").exists())

    def test_a_failed_job_is_kept_until_it_is_stopped(self):
        for setup, words in ((), "left"), (("--setup=echo half > left; exit 4",), "half"):
            code = 4 if setup else 3
            job = self.cluster.submit("--no-code", "--debug=4h", *setup, "--", "bash", "-c", "echo left > left; exit 3")
            kept = wait_until("it is kept", lambda job=job: (found := self.cluster.job(job))["debug_until_ms"] and found)
            self.assertEqual((kept["state"], kept["exit_code"]), ("running", code))
            self.assertIn(f"exited with code {code}; its nodes are kept for 4 h", kept["reason"])
            self.assertEqual(self.cluster.must("job", "exec", job, "--", "cat", "left"), words + "\n")
            self.cluster.must("job", "stop", job)
            ended = self.cluster.wait_state(job, "failed", "stopped")
            self.assertEqual((ended["state"], ended["exit_code"], ended["debug_until_ms"]), ("failed", code, 0))
            self.assertIn(f"exited with code {code}", ended["reason"])
            self.assertIn("this rank is kept for volador job attach", self.cluster.must("job", "logs", job))

    def test_a_killed_worker_ends_the_session_with_the_reason(self):
        job = self.cluster.submit("--no-code", "--", "sleep", "1000")
        node = self.cluster.wait_state(job, "running")["ranks"][0]["node"]
        session, pid = self.attach(job)
        self.cluster.kill(self.cluster.pid_of("worker", node))
        self.assertNotEqual(session.wait(), 0)
        self.assertRegex(session.text, "rank 0 of|does not run yet")
        self.assertTrue(session.mode_is_restored())
        wait_until("the shell has ended", lambda: not pathlib.Path(f"/proc/{pid}").exists())

    def test_a_session_goes_on_through_a_restart_of_the_head(self):
        job = self.cluster.submit("--no-code", "--", "sleep", "1000")
        self.cluster.wait_state(job, "running")
        session, pid = self.attach(job)
        self.cluster.kill(self.cluster.pid_of("head"))
        self.cluster.start_head()
        session.type("echo st''ill $$-; exit 4\n")
        session.read_until(f"still {pid}-")
        self.assertEqual(session.wait(), 4)

    def test_a_shell_can_be_opened_after_a_restart_of_the_head(self):
        job = self.cluster.submit("--no-code", "--", "sleep", "1000")
        self.cluster.wait_state(job, "running")
        self.cluster.kill(self.cluster.pid_of("head"))
        self.cluster.start_head()
        session, _ = self.attach(job, "--wait")  # The head may not have found the rank yet.
        session.type("exit 3\n")
        self.assertEqual(session.wait(), 3)


if __name__ == "__main__":
    unittest.main()
