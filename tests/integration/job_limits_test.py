"""Limits of the kernel for jobs: real workers, real control groups, processes that hog, bomb and hide.

Environment: VOLADOR_BIN, the folder of the programs. Where this user may not create control groups, the tests are skipped.
"""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from single_machine import BIN, Home, wait_until  # noqa: E402

VOLADOR = BIN / "volador"
PROCESSES = 200  # Per actor: small, so that a bomb does not slow the machine down.


class Node:
    """A cluster of one node, with a home of its own."""

    def __init__(self, name="west", cluster="heron", *arguments):
        self.home = Home()
        self.name = name
        self.cluster = cluster
        self.work = self.home.path / "work"
        self.work.mkdir()
        self.arguments = ("start", "--head", f"--cluster={cluster}", "--port=0", f"--name={name}", "--num-cpus=4", "--num-gpus=0",
                          "--memory=8GiB", "--no-dashboard", f"--processes-per-actor={PROCESSES}", *arguments)
        self.must(*self.arguments)

    def run(self, *arguments, **options):
        return self.home.run(VOLADOR, *arguments, cwd=self.work, **options)

    def must(self, *arguments, **options):
        done = self.run(*arguments, **options)
        if done.returncode != 0:
            raise AssertionError(f"volador {' '.join(map(str, arguments))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *arguments):
        return json.loads(self.must("job", "submit", "--json", "--no-code", *arguments))["id"]

    def job(self, job):
        return json.loads(self.must("job", "show", job, "--json"))

    def wait_state(self, job, *states):
        return wait_until(f"{job} is {' or '.join(states)}", lambda: (found := self.job(job))["state"] in states and found)

    def output(self, job):
        return self.run("job", "logs", job).stdout

    @property
    def folder(self):
        return self.home.path / f"volador/clusters/{self.cluster}/nodes/{self.name}"

    def log(self):
        return (self.folder / "worker.log").read_text()

    def groups(self):
        """Folders of the worker's control groups; none: it has no permission."""
        file = self.folder / "cgroups"
        return [pathlib.Path(line) for line in file.read_text().split()] if file.exists() else []

    def grouped(self):
        """Pids in the groups of the hosts."""
        found = set()
        for group in self.groups():
            for procs in group.glob("host-*/cgroup.procs"):
                try:
                    found.update(int(pid) for pid in procs.read_text().split())
                except OSError:
                    pass  # The group was removed meanwhile.
        return found

    def processes(self, word):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def kill_worker(self):
        pid = int((self.folder / "worker.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(f"process {pid} has ended", lambda: pid not in self.home.pids())

    def close(self):
        self.run("stop")
        self.home.close()


class JobLimits(unittest.TestCase):
    def setUp(self):
        self.node = Node()
        self.addCleanup(self.node.close)
        if not self.node.groups():
            line = next((line for line in self.node.log().splitlines() if "without limits" in line), "no line in worker.log")
            self.skipTest(f"this user may not create control groups: {line}")

    def test_a_memory_hog_is_ended_with_the_reason_and_the_node_goes_on(self):
        node = self.node
        job = node.submit("--memory=128MiB", "--", "python3", "-c", "x = bytearray(600 << 20); print(len(x))")
        ended = node.wait_state(job, "failed", "succeeded")
        self.assertEqual(ended["state"], "failed")
        self.assertIn("it used more than its 128 MiB of memory, the limit of its job or actor; ask for more with --memory", ended["reason"])
        # A child of the command is the hog, and the command reports it by a code of its own.
        job = node.submit("--memory=128MiB", "--", "bash", "-c", "python3 -c 'bytearray(600 << 20)'; echo went on; exit 3")
        self.assertIn("more than its 128 MiB", node.wait_state(job, "failed", "succeeded")["reason"])
        self.assertIn("went on", node.output(job))
        # Neither a job with enough memory nor one without a request is touched.
        for arguments in (("--memory=1GiB",), ()):
            ran = node.run("job", "submit", "--follow", "--no-code", *arguments, "--", "python3", "-c", "print(len(bytearray(300 << 20)))")
            self.assertEqual((ran.returncode, ran.stdout), (0, f"{300 << 20}\n"), ran.stderr)

    def test_a_fork_bomb_leaves_no_process_and_the_node_answers_during_it(self):
        node = self.node
        bomb = "echo bombs; f() { sleep 7171.5 & f | f & }; f 2> /dev/null; sleep 7171.5"
        job = node.submit("--", "bash", "-c", bomb)
        wait_until("it forks", lambda: len(node.grouped()) > PROCESSES // 2)
        ran = node.run("job", "submit", "--follow", "--no-code", "--", "echo", "answers")
        self.assertEqual((ran.returncode, ran.stdout), (0, "answers\n"), ran.stderr)
        self.assertLessEqual(len(node.grouped()), PROCESSES + 50)
        node.must("job", "stop", "--now", job)
        node.wait_state(job, "stopped")
        self.assertEqual(node.processes("7171.5"), [])
        wait_until("the log says it", lambda: "reached its limit of processes" in node.log())
        self.assertEqual(node.log().count("reached its limit of processes"), 1)

    def test_double_forks_in_sessions_of_their_own_that_ignore_sigterm_are_gone_with_the_job(self):
        node = self.node
        script = "for i in $(seq 40); do (setsid bash -c \"trap '' TERM HUP; while :; do sleep 7272.5; done\" &) ; done; echo made; sleep 7272.5"
        for isolated in ((), ("--isolated",)) if (pathlib.Path("/usr/bin/bwrap").exists()) else ((),):
            with self.subTest(isolated=bool(isolated)):
                job = node.submit(*isolated, "--graceful=1s", "--", "bash", "-c", script)
                wait_until("all run", lambda: len(node.processes("7272.5")) >= 81)
                self.assertGreaterEqual(len(node.grouped()), 82, "all of them, and the host, are in the group")
                node.must("job", "stop", job)
                node.wait_state(job, "stopped")
                self.assertEqual(node.processes("7272.5"), [], "the end is known only when they are gone")

    def test_a_killed_worker_leaves_no_process_and_no_group_after_the_next_start(self):
        node = self.node
        script = "(setsid bash -c \"trap '' TERM; unset VOLADOR_NODE_ID; exec env -i sleep 7373.5\" &); sleep 7373.5"
        node.submit("--", "bash", "-c", script)
        wait_until("both run", lambda: len(node.processes("sleep\x007373.5")) >= 2)
        before = [child for group in node.groups() for child in group.glob("host-*")]
        self.assertTrue(before)
        node.kill_worker()
        node.must("stop")
        self.assertEqual(node.processes("sleep\x007373.5"), [])
        for group in before:
            self.assertFalse(group.exists(), group)
        node.must(*node.arguments)
        groups = node.groups()
        self.assertTrue(groups)
        node.must("stop")
        for group in groups:
            self.assertFalse(group.exists(), group)

    def test_two_clusters_of_the_same_names_do_not_touch_each_others_groups(self):
        other = Node()
        self.addCleanup(other.close)
        self.assertFalse(set(other.groups()) & set(self.node.groups()))
        job = other.submit("--", "bash", "-c", "echo up; sleep 1; sleep 7474.5")
        wait_until("it runs", lambda: "up" in other.output(job))
        self.node.kill_worker()
        self.node.must("stop")
        self.node.must(*self.node.arguments)
        self.node.must("stop")
        self.assertEqual(other.job(job)["state"], "running")
        self.assertTrue(other.grouped())
        self.assertTrue(all(group.exists() for group in other.groups()))


class WithoutGroups(unittest.TestCase):
    def test_a_worker_without_groups_runs_jobs_as_before(self):
        node = Node("west", "heron", "--cgroups=off")
        self.addCleanup(node.close)
        self.assertEqual(node.groups(), [])
        ran = node.run("job", "submit", "--follow", "--no-code", "--memory=64MiB", "--", "python3", "-c", "print(len(bytearray(200 << 20)))")
        self.assertEqual((ran.returncode, ran.stdout), (0, f"{200 << 20}\n"), ran.stderr)
        self.assertNotIn("limit", node.log())


if __name__ == "__main__":
    unittest.main()
