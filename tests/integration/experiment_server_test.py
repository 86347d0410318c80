"""Experiments in the form of Determined on one machine with two workers: the real programs; trials that use only the HTTP API.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from jobs_test import Cluster as JobCluster  # noqa: E402
from single_machine import wait_until  # noqa: E402

TRIAL = pathlib.Path(__file__).resolve().parent / "experiment_trial.py"
OPEN_STATES = ("ACTIVE", "PAUSED", "STOPPING_CANCELED", "STOPPING_KILLED", "STOPPING_COMPLETED", "STOPPING_ERROR")


class Cluster(JobCluster):
    """A head with a worker of 2 CPUs, and a second worker "east" of 2 CPUs."""

    gpus = 0

    def __init__(self):
        super().__init__()
        self.token = json.loads(self.must("token", "create", "--role=operator", "--json"))["token"]

    def start_head(self):
        self.must("start", "--head", "--cluster=heron", "--port=0", "--dashboard-port=0", "--name=west", "--num-cpus=2", "--num-gpus=0")
        self.url = re.match(r"https?://[^/]+", json.loads(self.must("dashboard", "--json"))["url"])[0]

    def ask(self, method, path, body=None, token=None, version="/api/v1/determined"):
        """The status and the reply."""
        request = urllib.request.Request(self.url + version + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + (token or self.token)})
        try:
            with urllib.request.urlopen(request, timeout=90) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def get(self, path, **options):
        status, reply = self.ask("GET", path, **options)
        if status != 200:
            raise AssertionError(f"GET {path}: {status} {reply}")
        return reply

    def post(self, path, body, **options):
        status, reply = self.ask("POST", path, body, **options)
        if status != 200:
            raise AssertionError(f"POST {path}: {status} {reply}")
        return reply


class Experiments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.notes_folder = self.cluster.home.path / "notes" / self.id().rsplit(".", 1)[1]
        self.notes_folder.mkdir(parents=True)

    def create(self, searcher, env=(), paused=False, token=None, **config):
        """The id of a new experiment."""
        config = {"name": self.id().rsplit(".", 1)[1][:40], "entrypoint": f"python3 {TRIAL}", "max_restarts": 0, "hyperparameters": {"lr": 0.5},
                  "searcher": {"metric": "loss", "max_length": {"batches": 4}, **searcher},
                  "environment": {"environment_variables": [f"NOTES={self.notes_folder}", *env]}, **config}
        return self.cluster.post("/experiments", {"config": json.dumps(config), "paused": paused}, token=token)["experiment"]["id"]

    def info(self, experiment):
        return self.cluster.get(f"/experiments/{experiment}")

    def trials(self, experiment):
        return self.cluster.get(f"/experiments/{experiment}/trials")["rows"]

    def notes(self, what):
        file = self.notes_folder / "notes"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("\n")]  # The last one may be half written.
        return [row for row in rows if row["what"] == what]

    def wait_note(self, what, count=1):
        return wait_until(f"{count} × {what}", lambda: len(found := self.notes(what)) >= count and found)

    def wait_state(self, experiment, *states, seconds=90):
        def ended():
            info = self.info(experiment)
            if info["state"] not in states and info["state"] not in OPEN_STATES:
                raise AssertionError(f"{info}\n{self.trials(experiment)}")
            return info["state"] in states and info
        return wait_until(f"experiment {experiment} is {' or '.join(states)}", ended, seconds)

    def change(self, experiment, command):
        return self.cluster.post(f"/experiments/{experiment}:change", {"command": command})

    def rows(self, topic):
        return self.cluster.get(f"/{topic}", version="/api/v1")["rows"]

    def test_a_single_trial_trains_and_all_of_it_can_be_read(self):
        experiment = self.create({"name": "single"}, labels=["first"])
        info = self.wait_state(experiment, "COMPLETED")
        self.assertEqual((info["trials"], info["trials_by_state"], info["progress"], info["labels"]), (1, {"COMPLETED": 1}, 1.0, ["first"]))
        self.assertAlmostEqual(info["best_metric"], 0.125)
        (trial,) = self.trials(experiment)
        self.assertEqual((trial["state"], trial["batches"], trial["run"], trial["restarts"]), ("COMPLETED", 4, 1, 0))
        self.assertEqual(info["best_trial"], trial["id"])
        self.assertAlmostEqual(trial["metrics"]["loss"], 0.125)
        self.assertEqual([note["length"] for note in self.notes("completes")], [4])
        series = {(row["group"], row["metric"]): row for group in ("training", "validation")
                  for row in self.cluster.get(f"/trials/{trial['id']}/metrics?group={group}")["series"]}
        self.assertEqual(series["training", "loss"]["batches"], [1, 2, 3, 4])
        self.assertEqual(series["validation", "loss"]["values"], [0.125])
        checkpoints = self.cluster.get(f"/trials/{trial['id']}/checkpoints")["rows"]
        self.assertEqual(self.cluster.get(f"/checkpoints/{trial['latest_checkpoint'][:8]}")["id"], trial["latest_checkpoint"])
        self.assertEqual({row["trial"] for row in checkpoints}, {trial["id"]})
        # A job deletes all but the best and the latest one.
        states = lambda: {row["id"]: row["state"] for row in self.cluster.get(f"/experiments/{experiment}/checkpoints")["rows"]}
        wait_until("the others are deleted", lambda: "DELETING" not in states().values() and "DELETED" in states().values())
        folder = pathlib.Path(info["storage"])
        for name, state in states().items():
            self.assertEqual((folder / name).exists(), state == "COMPLETED", state)
        # The rows of the cluster's own list, for the page and for `volador list`.
        (row,) = [row for row in self.rows("experiments") if row["name"] == info["run"]]
        wait_until("it has ended there", lambda: [row for row in self.rows("experiments") if row["name"] == info["run"] and row["state"] == "finished"])
        (shown,) = [row for row in self.rows("trials") if row["experiment"] == info["run"]]
        self.assertEqual((shown["id"], shown["status"], shown["step"]), (f"trial-{trial['id']}", "finished", 4))
        self.assertEqual(row["metric"], "loss")
        self.assertIn(info["run"], self.cluster.must("list", "experiments"))
        # Its token does not count any more.
        wait_until("its token is revoked", lambda: [row for row in self.cluster.get("/tokens", version="/api/v1")["rows"]
                                                    if row["note"] == f"experiment {info['name']}" and row["state"] == "revoked"])

    def test_a_random_search_runs_all_its_trials(self):
        experiment = self.create({"name": "random", "max_trials": 4}, hyperparameters={"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}})
        info = self.wait_state(experiment, "COMPLETED")
        trials = self.trials(experiment)
        self.assertEqual((len(trials), {trial["state"] for trial in trials}), (4, {"COMPLETED"}))
        best = min(trials, key=lambda trial: trial["hparams"]["lr"])
        self.assertEqual(info["best_trial"], best["id"])
        self.assertEqual(collections.Counter(note["trial"] for note in self.notes("completes")), collections.Counter(trial["id"] for trial in trials))

    def test_adaptive_asha_trains_the_better_trials_longer(self):
        experiment = self.create({"name": "adaptive_asha", "max_trials": 6, "max_length": {"batches": 8}, "divisor": 2, "max_rungs": 3, "mode": "aggressive"},
                                 hyperparameters={"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}})
        self.wait_state(experiment, "COMPLETED")
        trials = self.trials(experiment)
        self.assertEqual((len(trials), {trial["state"] for trial in trials}), (6, {"COMPLETED"}))
        lengths = [trial["batches"] for trial in trials]
        self.assertEqual(max(lengths), 8)
        self.assertLess(min(lengths), 8)
        completed = collections.Counter((note["trial"], note["length"]) for note in self.notes("completes"))
        self.assertEqual(set(completed.values()), {1})

    def test_a_paused_experiment_goes_on_from_its_checkpoint(self):
        experiment = self.create({"name": "single"}, env=["GATE=3"])
        self.wait_note("waits")
        self.assertEqual(self.change(experiment, "pause")["state"], "PAUSED")
        self.wait_note("preempted")
        (trial,) = self.trials(experiment)
        wait_until("its job has ended", lambda: self.cluster.job(self.trials(experiment)[0]["job"])["state"] not in ("queued", "running"))
        wait_until("it is shown as paused", lambda: [row for row in self.rows("experiments") if row["name"] == self.info(experiment)["run"] and row["state"] == "paused"])
        (self.notes_folder / "open").touch()
        self.change(experiment, "activate")
        self.wait_state(experiment, "COMPLETED")
        (trial,) = self.trials(experiment)
        self.assertEqual((trial["run"], trial["restarts"]), (2, 0))
        self.assertEqual([note["batches"] for note in self.notes("began")], [0, 3])

    def test_cancel_keeps_a_checkpoint_and_kill_does_not_wait(self):
        canceled = self.create({"name": "single"}, env=["GATE=3"])
        self.wait_note("waits")
        self.change(canceled, "cancel")
        self.wait_state(canceled, "CANCELED")
        (trial,) = self.trials(canceled)
        self.assertEqual(trial["state"], "CANCELED")
        self.assertEqual(self.cluster.get(f"/checkpoints/{trial['latest_checkpoint']}")["batches"], 3)
        killed = self.create({"name": "single"}, env=["GATE=1"])
        self.wait_note("waits", 2)
        self.change(killed, "kill")
        self.wait_state(killed, "CANCELED")
        self.assertEqual(len(self.notes("preempted")), 1)
        pid = self.notes("began")[1]["pid"]
        wait_until("its process has ended", lambda: pid not in self.cluster.home.pids())
        status, problem = self.cluster.ask("POST", f"/experiments/{killed}:change", {"command": "activate"})
        self.assertEqual((status, problem["code"]), (400, "kInvalidArgument"))

    def test_a_failed_trial_starts_again_from_its_checkpoint_until_its_restarts_are_over(self):
        again = self.create({"name": "single"}, env=["CRASH=3", "CRASHES=1"], max_restarts=2)
        self.wait_state(again, "COMPLETED")
        (trial,) = self.trials(again)
        self.assertEqual((trial["run"], trial["restarts"]), (2, 1))
        self.assertEqual([note["batches"] for note in self.notes("began")], [0, 2])
        over = self.create({"name": "single"}, env=["CRASH=3", "CRASHES=99"], max_restarts=1)
        info = self.wait_state(over, "ERROR")
        (trial,) = self.trials(over)
        self.assertEqual((trial["state"], trial["run"]), ("ERROR", 2))
        self.assertIn("7", trial["reason"])
        wait_until("it is shown as failed", lambda: [row for row in self.rows("experiments") if row["name"] == info["run"] and row["state"] == "failed"])

    def test_a_killed_process_counts_as_a_failure(self):
        experiment = self.create({"name": "single"}, env=["GATE=3"], max_restarts=1)
        self.wait_note("waits")
        os.kill(self.notes("began")[0]["pid"], signal.SIGKILL)
        (self.notes_folder / "open").touch()
        self.wait_state(experiment, "COMPLETED")
        self.assertEqual([note["batches"] for note in self.notes("began")], [0, 2])

    def test_a_deleted_experiment_leaves_nothing(self):
        experiment = self.create({"name": "single"})
        info = self.wait_state(experiment, "COMPLETED")
        (trial,) = self.trials(experiment)
        self.change(experiment, "delete")
        wait_until("it is gone", lambda: self.cluster.ask("GET", f"/experiments/{experiment}")[0] == 404)
        self.assertEqual(self.cluster.ask("GET", f"/trials/{trial['id']}/metrics")[0], 404)
        self.assertFalse((pathlib.Path(info["storage"]) / trial["latest_checkpoint"]).exists())

    def test_a_wrong_configuration_is_refused_with_its_place(self):
        status, problem = self.cluster.ask("POST", "/experiments", {"config": "name: a\nsercher: {name: single}\n", "config_name": "a.yaml"})
        self.assertEqual(status, 400)
        self.assertIn("a.yaml", problem["detail"])
        before = len(self.cluster.get("/experiments")["rows"])
        config = {"name": "only-checked", "entrypoint": "true", "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}}}
        reply = self.cluster.post("/experiments", {"config": json.dumps(config), "validate_only": True})
        self.assertEqual(reply["experiment"]["id"] if "experiment" in reply else 0, 0)
        self.assertEqual(len(self.cluster.get("/experiments")["rows"]), before)
        status, problem = self.cluster.ask("POST", "/experiments", {"config": json.dumps({**config, "resources": {"slots_per_trial": 64}})})
        self.assertEqual((status, problem["code"]), (409, "kInfeasible"))
        self.assertEqual(self.cluster.ask("GET", "/experiments/4711")[0], 404)
        self.assertEqual(self.cluster.ask("GET", "/experiments/x")[0], 400)

    def test_the_page_pauses_resumes_and_stops_it_by_its_rows(self):
        experiment = self.create({"name": "single"}, env=["GATE=3"])
        run = self.info(experiment)["run"]
        self.wait_note("waits")
        wait_until("the head knows its row", lambda: [row for row in self.rows("experiments") if row["name"] == run])
        self.cluster.post(f"/experiments/{run}:pause", {}, version="/api/v1")
        self.wait_state(experiment, "PAUSED")
        self.wait_note("preempted")
        wait_until("its row says so", lambda: [row for row in self.rows("experiments") if row["name"] == run and row["state"] == "paused"])
        self.cluster.post(f"/experiments/{run}:resume", {}, version="/api/v1")
        self.wait_note("waits", 2)
        self.cluster.post(f"/experiments/{run}:stop", {}, version="/api/v1")
        self.wait_state(experiment, "CANCELED")

    def test_others_may_not_change_it_and_its_trials_may_use_the_api(self):
        driver = json.loads(self.cluster.must("token", "create", "--role=driver", "--json"))["token"]
        viewer = json.loads(self.cluster.must("token", "create", "--role=viewer", "--json"))["token"]
        experiment = self.create({"name": "single"}, paused=True)
        self.assertEqual(self.cluster.ask("POST", f"/experiments/{experiment}:change", {"command": "kill"}, token=viewer)[0], 403)
        self.assertEqual(self.cluster.ask("GET", f"/experiments/{experiment}", token=driver)[0], 403)
        self.change(experiment, "kill")
        self.wait_state(experiment, "CANCELED")
        # A user's: its trials act as the user, and another user may not change it.
        tokens = {}
        for user in ("mei", "kim"):
            self.cluster.post("/users", {"user": {"name": user, "role": "user"}, "password": "a long password"}, version="/api/v1")
            tokens[user] = json.loads(self.cluster.must("token", "create", f"--user={user}", "--json"))["token"]
        own = self.create({"name": "single"}, token=tokens["mei"])
        self.assertEqual(self.cluster.ask("POST", f"/experiments/{own}:change", {"command": "kill"}, token=tokens["kim"])[0], 403)
        info = self.wait_state(own, "COMPLETED")
        (trial,) = self.trials(own)
        self.assertEqual((info["user"], self.cluster.job(trial["job"])["user"]), ("mei", "mei"))
        audit = [(row["action"], row["outcome"]) for row in self.cluster.get("/audit?page_size=1000", version="/api/v1")["rows"]]
        for entry in (("create_experiment", "done"), ("kill_experiment", "done"), ("kill_experiment", "kPermissionDenied")):
            self.assertIn(entry, audit)

    def test_a_custom_search_waits_for_its_program(self):
        experiment = self.create({"name": "custom"}, env=["GATE=99"])
        request = "6f1c6c58-8f0e-4d7b-9f5e-0c3c9f2f7f11"
        events = wait_until("the first event", lambda: self.cluster.post(f"/experiments/{experiment}/searcher:events", {"wait_ms": 30_000})["events"])
        first = json.loads(events[0])
        self.cluster.post(f"/experiments/{experiment}/searcher:operations", {"event": first["id"], "operations": [
            {"kind": "create", "request": request, "seed": 1, "hparams": {"lr": 0.25}}, {"kind": "validate_after", "request": request, "length": 2}]})
        while True:
            events = [json.loads(text) for text in self.cluster.post(f"/experiments/{experiment}/searcher:events", {"wait_ms": 30_000})["events"]]
            ends = [event for event in events if event["event"] == "validation_completed"]
            if ends:
                self.assertAlmostEqual(ends[0]["metric"], 0.125)
                self.cluster.post(f"/experiments/{experiment}/searcher:operations", {"event": events[-1]["id"], "operations": [
                    {"kind": "close", "request": request}, {"kind": "shutdown"}]})
                break
            if events:
                self.cluster.post(f"/experiments/{experiment}/searcher:operations", {"event": events[-1]["id"], "operations": []})
        self.wait_state(experiment, "COMPLETED")


class Faults(unittest.TestCase):
    setUp_ = Experiments.setUp
    create, info, trials, notes, wait_note = Experiments.create, Experiments.info, Experiments.trials, Experiments.notes, Experiments.wait_note
    wait_state, change, rows = Experiments.wait_state, Experiments.change, Experiments.rows

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.setUp_()

    def test_a_killed_head_goes_on_and_counts_nothing_twice(self):
        experiment = self.create({"name": "random", "max_trials": 6, "max_length": {"batches": 4}}, env=["GATE=2"],
                                 hyperparameters={"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}})
        paused = self.create({"name": "single"}, paused=True)
        self.wait_note("waits", 4)
        before = self.trials(experiment)
        self.cluster.kill(self.cluster.pid_of("head"))
        (self.notes_folder / "open").touch()
        self.cluster.start_head()
        self.assertEqual(self.info(paused)["state"], "PAUSED")
        self.wait_state(experiment, "COMPLETED")
        trials = self.trials(experiment)
        self.assertEqual([(row["id"], row["hparams"]) for row in trials[:len(before)]], [(row["id"], row["hparams"]) for row in before])
        self.assertEqual((len(trials), {row["state"] for row in trials}, {row["restarts"] for row in trials}), (6, {"COMPLETED"}, {0}))
        self.assertEqual(collections.Counter(note["trial"] for note in self.notes("completes")), collections.Counter(row["id"] for row in trials))
        jobs = collections.Counter(job["spec"]["trial"] for job in self.cluster.get("/jobs", version="/api/v1")["rows"])
        self.assertEqual(set(jobs.values()), {1})
        run = self.info(experiment)["run"]
        wait_until("it has ended in the list", lambda: [row for row in self.rows("experiments") if row["name"] == run and row["state"] == "finished"])
        self.assertEqual(len([row for row in self.rows("trials") if row["experiment"] == run]), 6)

    def test_a_search_survives_a_head_that_is_killed_again_and_again(self):
        experiment = self.create({"name": "adaptive_asha", "max_trials": 40, "max_length": {"batches": 16}, "divisor": 2, "max_rungs": 4},
                                 hyperparameters={"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}})
        for kills in range(1, 5):
            self.wait_note("completes", 10 * kills)
            self.cluster.kill(self.cluster.pid_of("head"))
            self.cluster.start_head()
        self.wait_state(experiment, "COMPLETED")
        trials = self.trials(experiment)
        self.assertEqual((len(trials), {row["state"] for row in trials}, {row["restarts"] for row in trials}), (40, {"COMPLETED"}, {0}))
        self.assertEqual(set(collections.Counter((note["trial"], note["length"]) for note in self.notes("completes")).values()), {1})
        self.assertEqual(self.notes("refused"), [])

    def test_a_trial_of_a_killed_worker_goes_on_from_its_checkpoint(self):
        experiment = self.create({"name": "single"}, env=["GATE=3"])
        self.wait_note("waits")
        (trial,) = self.trials(experiment)
        node = self.cluster.job(trial["job"])["ranks"][0]["node"]
        self.cluster.kill(self.cluster.pid_of("worker", node))
        self.wait_note("waits", 2)
        (self.notes_folder / "open").touch()
        self.wait_state(experiment, "COMPLETED")
        (trial,) = self.trials(experiment)
        self.assertEqual(trial["restarts"], 0)
        self.assertEqual([note["batches"] for note in self.notes("began")], [0, 2])


if __name__ == "__main__":
    if not shutil.which("python3"):
        sys.exit(77)
    unittest.main(warnings="ignore")
