"""Settings of the job queue at work: pools, limits, preemption, batches and alternatives, with real commands.

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

# Saves its step on USR1, and goes on from there when it starts again.
TRAIN = """
import os, pathlib, signal, sys, time
file = pathlib.Path(sys.argv[1])
step = int(file.read_text()) if file.exists() else 0
def save(*_):
    file.write_text(str(step))
    print("saved", step, flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("starts at", step, flush=True)
while step < int(sys.argv[2]):
    time.sleep(0.02)
    step += 1
print("ends at", step, flush=True)
"""


class PoolCluster(Cluster):
    """As Cluster, with worker "east" in pool fast."""

    labels = ("--labels=pool=fast",)

    def settings(self, text):
        file = self.work / "queue.yaml"
        file.write_text(text)
        return self.run("job", "queue", f"--apply={file}")

    def queue(self):
        return json.loads(self.must("job", "queue", "--json"))


class JobQueue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = PoolCluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def tearDown(self):
        done = self.cluster.settings("preemption: never\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        for row in json.loads(self.cluster.must("job", "list", "--state=open", "--json"))["jobs"]:
            self.cluster.run("job", "stop", row["id"], "--now")
            self.cluster.wait_state(row["id"], "stopped", "succeeded", "failed")

    def node_of(self, job):
        return self.cluster.wait_state(job, "running", "succeeded")["ranks"][0]["node"]

    def test_a_job_runs_in_its_pool_and_a_closed_one_refuses_it(self):
        c = self.cluster
        self.assertEqual(self.node_of(c.submit("--no-code", "--", "true")), "west")
        self.assertEqual(self.node_of(c.submit("--no-code", "--pool=fast", "--", "true")), "east")
        two = c.run("job", "submit", "--no-code", "--pool=fast", "--nodes=2", "--", "true")
        self.assertIn("can never start", two.stderr)
        unknown = c.run("job", "submit", "--no-code", "--pool=slow", "--", "true")
        self.assertIn('there is no pool "slow"; the pools are default, fast', unknown.stderr)
        self.assertEqual(c.settings("pools: {fast: {projects: [vision]}}").returncode, 0)
        closed = c.run("job", "submit", "--no-code", "--pool=fast", "--", "true")
        self.assertIn("fast takes jobs of vision only", closed.stderr)
        self.assertEqual(self.node_of(c.submit("--no-code", "--pool=fast", "--project=vision", "--", "true")), "east")
        pools = {row["pool"]["name"]: row for row in c.queue()["pools"]}
        self.assertEqual((pools["fast"]["nodes"], pools["default"]["nodes"]), (["east"], ["west"]))

    def test_settings_with_errors_change_nothing_and_name_the_place(self):
        c = self.cluster
        before = c.must("job", "queue", "--yaml")
        wrong = c.settings("projects:\n  vision: {limit: {gpus: 1}}\n")
        self.assertIn("queue.yaml:2:12: there is no field", wrong.stderr)
        self.assertIn("did you mean limits?", wrong.stderr)
        self.assertIn("preemption: expected never, urgent or very_urgent", c.settings("preemption: often").stderr)
        self.assertEqual(c.must("job", "queue", "--yaml"), before)
        stale = c.settings("version: 1000")
        self.assertIn("the settings are at version", stale.stderr)
        driver = json.loads(c.must("token", "create", "--role=driver", "--json"))["token"]
        refused = c.run("job", "queue", f"--apply={c.work / 'queue.yaml'}", f"--token={driver}", f"--address={c.head_address()}")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("operator", refused.stderr)

    def test_a_project_holds_no_more_than_its_limit(self):
        c = self.cluster
        c.settings("projects: {vision: {limits: {cpus: 1}, urgent_jobs: 1}}")
        first = c.submit("--no-code", "--project=vision", "--", "sleep", "300")
        self.node_of(first)
        second = c.submit("--no-code", "--project=vision", "--", "true")
        waits = wait_until("it says why", lambda: "may hold" in (found := c.job(second))["reason"] and found)
        self.assertIn("its project may hold cpus 1 and holds cpus 1", waits["reason"])
        self.assertEqual(self.node_of(c.submit("--no-code", "--project=speech", "--", "true")), "west")
        self.assertIn("may hold 1 CPU", c.run("job", "submit", "--no-code", "--project=vision", "--cpus=2", "--", "true").stderr)
        c.must("job", "stop", first, "--now")
        c.wait_state(second, "succeeded")

    def test_a_preempted_job_saves_and_loses_no_step(self):
        c = self.cluster
        c.settings("preemption: urgent")
        (c.work / "train.py").write_text(TRAIN)
        state = c.work / "step.txt"
        job = c.submit("--cpus=2", "--stop-signal=USR1", "--graceful=60s", "--", sys.executable, "train.py", str(state), "100")
        c.wait_state(job, "running")
        wait_until("it has begun", lambda: "starts at 0" in c.must("job", "logs", job))
        urgent = c.submit("--no-code", "--cpus=2", "--priority=urgent", "--", "true")
        c.wait_state(urgent, "succeeded")
        ended = c.wait_state(job, "succeeded", "failed")
        self.assertEqual((ended["state"], ended["preemptions"], ended["restarts"]), ("succeeded", 1, 0))
        lines = c.must("job", "logs", job).splitlines()
        saved = next(line for line in lines if line.startswith("saved")).split()[1]
        self.assertEqual(lines, ["starts at 0", f"saved {saved}", f"starts at {saved}", "ends at 100"])

    def test_only_one_of_several_alternatives_ever_runs(self):
        c = self.cluster
        blockers = [c.submit("--no-code", "--cpus=2", f"--pool={pool}", "--", "sleep", "300") for pool in ("default", "fast")]
        for blocker in blockers:
            c.wait_state(blocker, "running")
        rows = c.must("job", "submit", "--no-code", "--cpus=2", "--or=pool=fast", "--or=cpus=1", "--json", "--", "sleep", "0.2")
        ids = [json.loads(part)["id"] for part in rows.replace("}\n{", "}\0{").split("\0")]
        self.assertEqual(len(ids), 3)
        for blocker in blockers:
            c.must("job", "stop", blocker, "--now")
        states = sorted(c.wait_state(job, "succeeded", "stopped", "failed")["state"] for job in ids)
        self.assertEqual(states, ["stopped", "stopped", "succeeded"])
        refused = c.run("job", "submit", "--no-code", "--or=gpus=100", "--", "true")
        self.assertIn("job 2 of 2: ", refused.stderr)
        self.assertEqual(json.loads(c.must("job", "list", "--state=open", "--json"))["jobs"], [])

    def test_a_batch_has_indices_and_output_folders(self):
        c = self.cluster
        out = c.work / "out"
        c.must("job", "submit", "--no-code", "--array=4", "--name=sweep", f"--output={out}", "--cpus=0.1", "--",
               "bash", "-c", "echo $VOLADOR_TASK_INDEX of $VOLADOR_TASK_COUNT > $VOLADOR_OUTPUT_DIR/made")  # fmt: skip
        rows = json.loads(c.must("job", "list", "--batch=sweep", "--json"))["jobs"]
        self.assertEqual(sorted(row["spec"]["name"] for row in rows), [f"sweep-{i}" for i in range(4)])
        for row in rows:
            c.wait_state(row["id"], "succeeded")
        self.assertEqual([(out / f"sweep-{i}/made").read_text() for i in range(4)], [f"{i} of 4\n" for i in range(4)])
        (c.work / "batch.yaml").write_text(
            "name: two\ncpus: 0.1\ntasks:\n  - {command: exit 0}\n  - {command: exit 3, env: {A: b}}\n"
        )
        c.must("job", "submit", "--no-code", "--file=batch.yaml")
        ends = [c.wait_state(f"two-{i}", "succeeded", "failed") for i in range(2)]
        self.assertEqual([(end["state"], end["exit_code"]) for end in ends], [("succeeded", 0), ("failed", 3)])

    def test_settings_and_a_preemption_survive_a_killed_head(self):
        c = self.cluster
        c.settings("{preemption: urgent, projects: {vision: {weight: 3}}}")
        victim = c.submit("--no-code", "--cpus=2", "--graceful=60s", "--",
                          "bash", "-c", "trap 'echo saves; sleep 2; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done")  # fmt: skip
        wait_until("it runs", lambda: "ready" in c.must("job", "logs", victim))
        urgent = c.submit("--no-code", "--cpus=2", "--priority=urgent", "--", "true")
        wait_until("it saves", lambda: "saves" in c.must("job", "logs", victim))
        os.kill(c.pid_of("head"), signal.SIGKILL)
        c.start_head()
        c.wait_state(urgent, "succeeded")
        again = c.wait_state(victim, "running")
        self.assertEqual((again["preemptions"], again["restarts"]), (1, 0))
        self.assertEqual(c.queue()["settings"]["projects"][0]["weight"], 3)


if __name__ == "__main__":
    unittest.main()
