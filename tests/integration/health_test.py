"""Health of nodes and GPUs, with real workers, jobs and check programs: what a bad GPU or node means for jobs.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from job_faults_test import TRAIN  # noqa: E402
from jobs_test import Cluster  # noqa: E402
from single_machine import wait_until  # noqa: E402


class HealthCluster(Cluster):
    """As Cluster; "east" prints the lines of a file as its health problems."""

    def __init__(self):
        # Cluster starts "east", and so needs these before.
        self.labels = _OnStart(self)
        super().__init__()

    def start_head(self):  # With the dashboard, which keeps the events.
        self.must("start", "--head", "--cluster=heron", "--port=0", "--name=west", "--num-cpus=2", "--num-gpus=0")

    def options(self):
        self.problems = self.work / "problems"
        self.problems.write_text("")
        self.check = self.work / "check.sh"
        self.check.write_text(f"#!/bin/sh\nif [ -e {self.work}/hang ]; then echo $$ > {self.work}/hanging; sleep 1000; fi\ncat {self.problems}\n")
        self.check.chmod(0o755)
        return self.check_options()

    def check_options(self):
        return (f"--health-check={self.check}", "--health-check-interval=200ms", "--health-check-timeout=2s")

    def find(self, *lines):
        new = self.problems.with_suffix(".new")
        new.write_text("".join(line + "\n" for line in lines))
        new.rename(self.problems)

    def node(self, name="east"):
        return next(node for node in json.loads(self.must("list", "nodes", "--json"))["nodes"] if node["name"] == name)

    def wait_problems(self, count):
        return wait_until(f"{count} problems are shown", lambda: len(found := self.node()["problems"]) == count and (found or True))

    def wait_event(self, text):
        wait_until(f'there is an event "{text}"', lambda: text in self.must("list", "events", "--json", "--limit=200"))

    def step_of(self, file):
        return int(file.read_text()) if file.exists() else 0


class _OnStart:
    """Options of the second worker, made when they are read."""

    def __init__(self, cluster):
        self.cluster = cluster

    def __iter__(self):
        return iter(self.cluster.options())


class Health(unittest.TestCase):
    def setUp(self):
        self.cluster = HealthCluster()
        self.addCleanup(self.cluster.close)
        (self.cluster.work / "train.py").write_text(TRAIN)
        self.step = self.cluster.work / "step.txt"

    def train(self, *options):
        return self.cluster.submit("--stop-signal=USR1", "--graceful=60s", *options, "--", "python3", "train.py", str(self.step), "100000")

    def advanced(self, beyond):
        wait_until("the job makes steps", lambda: self.cluster.step_of(self.step) > beyond)

    def hold(self, *options):
        return self.cluster.submit("--no-code", "--cpus=0.1", *options, "--", "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES; sleep 1000")

    def gpus(self, job):
        actor = self.cluster.job(job)["ranks"][0]["actor"]
        return next(one["gpus"] for one in json.loads(self.cluster.must("list", "actors", "--json"))["actors"] if one["id"] == actor)

    def test_a_bad_gpu_is_not_granted_and_a_job_leaves_it(self):
        c = self.cluster
        job = self.train("--gpus=1", "--cpus=0.5", "--max-resumes=3")
        c.wait_state(job, "running")
        self.assertEqual(self.gpus(job), [0])
        stays = self.hold("--gpus=1")
        c.wait_state(stays, "running")
        self.assertEqual(self.gpus(stays), [1])
        c.must("job", "stop", stays, "--now")
        c.wait_state(stays, "stopped")
        self.advanced(3)

        c.find("gpu 0: 12 errors of its memory")
        shown = wait_until("it runs on the other GPU", lambda: len((found := c.job(job))["earlier"]) == 1 and found["state"] == "running" and found)
        self.assertEqual((shown["resumes"], shown["restarts"], self.gpus(job)), (1, 0, [1]))
        done = c.step_of(self.step)
        self.advanced(done)
        lines = c.must("job", "logs", job).splitlines()
        saved = [int(line.split()[1]) for line in lines if line.startswith("saved")]
        begun = [int(line.split()[1]) for line in lines if line.startswith("step")]
        self.assertEqual((len(saved), len(begun)), (1, 2))
        self.assertEqual(begun[1], saved[0], "no step is lost")

        problem = c.wait_problems(1)[0]
        self.assertEqual((problem["code"], problem["gpu"], problem["subject"]), ("check_failed", 0, "check.sh"))
        self.assertEqual(problem["reason"], "GPU 0: check.sh: 12 errors of its memory")
        for text in ("a GPU has a health problem and is not granted", "job goes on elsewhere", "job leaves out a GPU"):
            c.wait_event(text)
        self.assertIn("(1 bad)", c.must("list", "nodes"))
        self.assertIn("12 errors of its memory", c.must("explain", "east"))

        waits = self.hold("--gpus=1")
        wait_until("its reason names the problem", lambda: "12 errors of its memory" in c.job(waits)["reason"])
        self.assertNotEqual(c.job(waits)["state"], "running")
        c.find()
        c.wait_state(waits, "running")
        self.assertEqual(self.gpus(waits), [0])
        c.wait_event("a health problem is over")

    def test_a_job_leaves_a_node_with_a_problem_and_new_jobs_avoid_it(self):
        c = self.cluster
        c.must("drain", "west")
        job = self.train("--cpus=1", "--max-resumes=1")
        held = self.hold()
        for one in (job, held):
            self.assertEqual(c.wait_state(one, "running")["ranks"][0]["node"], "east")
        self.advanced(3)
        c.must("drain", "west", "--undo")
        c.find("the fans stand still")
        shown = wait_until("it runs elsewhere", lambda: (found := c.job(job))["state"] == "running" and found["ranks"][0]["node"] == "west" and found)
        self.assertEqual((shown["resumes"], shown["restarts"]), (1, 0))
        self.assertEqual(c.job(held)["state"], "running", "a job without resumes goes on")
        c.wait_event("job runs on a node that has a problem")
        c.wait_event("job leaves out a node")
        self.assertIn("unhealthy", c.must("list", "nodes"))
        self.assertIn("the fans stand still", c.must("status"))
        other = self.hold()
        self.assertEqual(c.wait_state(other, "running")["ranks"][0]["node"], "west")

        c.kill(c.pid_of("head"))
        c.start_head()
        self.assertEqual(c.wait_problems(1)[0]["reason"], "check.sh: the fans stand still")
        self.assertEqual(c.job(job)["ranks"][0]["node"], "west")

    def test_a_check_that_hangs_is_a_problem_and_leaves_no_process(self):
        c = self.cluster
        (c.work / "hang").write_text("")
        self.assertEqual(c.wait_problems(1)[0]["code"], "check_timeout")
        hung = int((c.work / "hanging").read_text())
        wait_until("it was ended", lambda: hung not in c.home.pids())
        (c.work / "hang").unlink()
        c.wait_problems(0)
        (c.work / "hanging").unlink(missing_ok=True)
        (c.work / "hang").write_text("")
        wait_until("it hangs again", (c.work / "hanging").exists)
        c.must("stop")
        wait_until("nothing is left", lambda: not c.home.pids())

    def test_a_killed_worker_leaves_no_check_behind(self):
        c = self.cluster
        (c.work / "hang").write_text("")
        wait_until("it hangs", (c.work / "hanging").exists)
        c.kill(c.pid_of("worker", "east"))
        (c.work / "hang").unlink()
        hung = int((c.work / "hanging").read_text())
        c.must(*c.join, "--name=east")
        self.assertNotIn(hung, c.home.pids())

    def test_a_node_joins_with_the_problems_of_its_first_inspection(self):
        c = self.cluster
        c.find("gpu 1: bad from the start", "gpu 0: bad from the start")
        c.wait_problems(2)
        waits = self.hold("--gpus=1")
        c.kill(c.pid_of("worker", "east"))
        c.must(*c.join, "--name=east", *c.check_options())
        self.assertEqual(len(c.node()["problems"]), 2)
        self.assertNotEqual(c.job(waits)["state"], "running")

    def test_a_wrong_check_program_is_refused_at_the_start(self):
        c = self.cluster
        refused = c.run(*c.join, "--name=south", "--health-check=/nowhere/check")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("health_check: expected a program that this user may execute, got /nowhere/check", refused.stderr)


if __name__ == "__main__":
    unittest.main()
