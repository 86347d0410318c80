"""Jobs that survive faults, with real workers and commands: elastic size, growth, resumes, log policies and the teardown.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

# Rank 0 counts steps and saves each one; USR1 ends it. The other ranks wait.
TRAIN = """
import os, pathlib, signal, sys, time
file = pathlib.Path(sys.argv[1])
step = int(file.read_text()) if file.exists() else 0
rank = os.environ.get("RANK", "0")
def write():
    file.with_suffix(".new").write_text(str(step))
    file.with_suffix(".new").rename(file)
def save(*_):
    if rank == "0":  # The signal may have come between a step and its writing.
        write()
    print("saved", step, flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("step", step, "of", os.environ.get("WORLD_SIZE", "1"), flush=True)
while step < int(sys.argv[2]):
    time.sleep(0.02)
    if rank == "0":
        step += 1
        write()
        print("did", step, flush=True)
    else:
        step = int(file.read_text()) if file.exists() else 0
"""


class FaultCluster(Cluster):
    """As Cluster, and more workers of 2 CPUs by name."""

    def add(self, name):
        self.must(*self.join, f"--name={name}")

    def lines(self, job):
        return self.must("job", "logs", job).splitlines()


class JobFaults(unittest.TestCase):
    def setUp(self):
        self.cluster = FaultCluster()
        self.step = self.cluster.work / "step.txt"
        (self.cluster.work / "train.py").write_text(TRAIN)

    def tearDown(self):
        self.cluster.close()

    def train(self, *options, steps=100000):
        return self.cluster.submit("--cpus=2", "--stop-signal=USR1", "--graceful=60s", *options, "--",
                                   "python3", "train.py", str(self.step), str(steps))  # fmt: skip

    def steps(self):
        return int(self.step.read_text()) if self.step.exists() else 0

    def advanced(self, beyond):
        wait_until("the job makes steps", lambda: self.steps() > beyond)

    def test_an_elastic_job_goes_on_with_fewer_nodes_and_grows(self):
        c = self.cluster
        job = self.train("--nodes=2-3", "--grow", "--max-resumes=5")
        self.assertEqual(c.wait_state(job, "running")["nodes"], 2)
        self.advanced(5)
        c.add("south")
        shown = wait_until("the job has grown", lambda: (found := c.job(job))["state"] == "running" and found["nodes"] == 3 and found, 90)
        self.assertEqual((shown["resumes"], shown["restarts"], shown["preemptions"]), (0, 0, 0))
        self.advanced(self.steps() + 5)

        c.kill(c.pid_of("worker", "south"))
        shown = wait_until("it goes on with two nodes", lambda: (found := c.job(job))["state"] == "running" and found["nodes"] == 2 and found, 120)
        self.assertEqual(shown["resumes"], 1)
        self.assertEqual({rank["node"] for rank in shown["ranks"]}, {"west", "east"})
        self.advanced(self.steps() + 5)
        c.must("job", "stop", job, "--now")
        c.wait_state(job, "stopped")
        # Each attempt begins at the step at which the one before ended, or one before it.
        lines = [line.split("] ", 1)[1] for line in c.lines(job) if line.startswith("[0] ")]
        done = 0
        worlds = []
        for line in lines:
            words = line.split()
            if words[0] == "did":
                done = int(words[1])
            elif words[0] == "step":
                worlds.append(words[-1])
                self.assertGreaterEqual(int(words[1]), done - 1, lines[-20:])
        self.assertEqual(worlds, ["2", "3", "2"])

    def test_a_drained_node_is_left(self):
        c = self.cluster
        job = self.train("--max-resumes=1")
        shown = c.wait_state(job, "running")
        first = shown["ranks"][0]["node"]
        self.advanced(3)
        c.must("drain", first)
        shown = wait_until("it runs elsewhere", lambda: (found := c.job(job))["state"] == "running" and found["ranks"][0]["node"] != first and found)
        self.assertEqual((shown["resumes"], shown["restarts"]), (1, 0))
        self.assertIn("saved", "\n".join(c.lines(job)))
        c.must("drain", first, "--undo")
        c.must("drain", shown["ranks"][0]["node"])
        failed = c.wait_state(job, "failed")
        self.assertIn("it has resumed 1 time, as often as it may", failed["reason"])

    def test_a_log_policy_moves_the_job_and_excludes_the_node(self):
        c = self.cluster
        (c.work / "job.yaml").write_text(
            "command: |\n"
            "  if [ -e $DIR/seen ]; then echo sound on $VOLADOR_JOB_NODE; exit 0; fi\n"
            "  touch $DIR/seen\n"
            "  echo this iteration hardware time is 2201.521 and e2e time is 3317.794921875 ms.\n"
            "  trap 'exit 0' TERM; while :; do sleep 0.05; done\n"
            "max_resumes: 3\n"
            "log_policies:\n"
            "  - {ratio_above: 0.66, action: move, label: slow}\n"
            "  - {ratio_above: 0.67, action: label, label: never}\n"
        )
        job = c.submit("--no-code", "--file=job.yaml", f"--env=DIR={c.work}")
        ended = c.wait_state(job, "succeeded", "failed")
        self.assertEqual(ended["state"], "succeeded", ended)
        first = ended["earlier"][0]["node"]
        self.assertEqual((ended["resumes"], ended["labels"], ended["avoids"]), (1, ["slow"], [first]))
        self.assertNotEqual(ended["ranks"][0]["node"], first)

    def test_a_log_policy_excludes_the_node_of_a_failed_attempt(self):
        c = self.cluster
        (c.work / "job.yaml").write_text(
            "command: 'test -e $DIR/seen && exit 0; touch $DIR/seen; echo Uncorrectable ECC error >&2; exit 3'\n"
            "max_restarts: 3\n"
            "log_policies: [{pattern: ECC error, action: exclude_node}]\n"
        )
        job = c.submit("--no-code", "--file=job.yaml", f"--env=DIR={c.work}")
        ended = c.wait_state(job, "succeeded", "failed")
        self.assertEqual((ended["state"], ended["restarts"]), ("succeeded", 1), ended)
        self.assertEqual(ended["avoids"], [ended["earlier"][0]["node"]])
        self.assertNotEqual(ended["ranks"][0]["node"], ended["avoids"][0])

    def test_a_log_policy_cancels_the_retries(self):
        c = self.cluster
        (c.work / "job.yaml").write_text(
            "command: 'echo CUDA out of memory; exit 1'\nmax_restarts: 5\nlog_policies: [{pattern: out of memory, action: cancel_retries, label: oom}]\n"
        )
        job = c.submit("--no-code", "--file=job.yaml")
        ended = c.wait_state(job, "failed")
        self.assertEqual((ended["restarts"], ended["labels"]), (0, ["oom"]))

    def test_a_pattern_with_an_error_is_refused_with_its_place(self):
        c = self.cluster
        (c.work / "job.yaml").write_text("command: 'true'\nlog_policies: [{pattern: 'loss [nan', action: label}]\n")
        refused = c.run("job", "submit", "--no-code", "--file=job.yaml")
        self.assertIn("no regular expression: missing ]: [nan at character 6", refused.stderr)
        both = c.run("job", "submit", "--no-code", "--restarts=1", "--max-resumes=1", "--", "true")
        self.assertIn("a job either resumes or restarts", both.stderr)

    def test_the_teardown_runs_however_the_command_ended(self):
        c = self.cluster
        clean = "echo cleans after $VOLADOR_EXIT_CODE"
        failed = c.run("job", "submit", "--no-code", "--follow", f"--teardown={clean}", "--", "bash", "-c", "exit 7")
        self.assertEqual((failed.returncode, failed.stdout), (7, "cleans after 7\n"))
        done = c.run("job", "submit", "--no-code", "--follow", "--teardown=echo cleans; exit 5", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["cleans", "volador: the teardown ended with exit code 5"])
        job = c.submit("--no-code", "--nodes=2", f"--teardown={clean}", "--", "bash", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
        wait_until("both run", lambda: c.lines(job).count("[0] ready") + c.lines(job).count("[1] ready") == 2)
        c.must("job", "stop", job)
        c.wait_state(job, "stopped")
        self.assertEqual(sorted(line for line in c.lines(job) if "cleans" in line), ["[0] cleans after 3", "[1] cleans after 3"])


if __name__ == "__main__":
    unittest.main()
