"""Resources in Katib's form on one machine with two workers: the real programs; trials are small scripts.

Environment: VOLADOR_BIN, the folder of the programs.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from experiment_server_test import Cluster  # noqa: E402
from single_machine import BIN, wait_until  # noqa: E402

JOB = """
        apiVersion: batch/v1
        kind: Job
        spec:
          backoffLimit: 0
          template:
            spec:
              containers:
                - name: main
                  image: example
                  command: ["bash", "-c", %s]
              restartPolicy: Never
"""


def experiment(name, script, parallel=3, most=12, failed=None, goal=None, resume=None, algorithm="random", settings=None, spec=None, extra=""):
    """A resource of kind Experiment whose trials run a script of bash; "$lr" in it is their parameter."""
    command = json.dumps("lr=${trialParameters.rate}; " + script)
    return f"""
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata:
  name: {name}
spec:
  objective:
    type: maximize
{f"    goal: {goal}" if goal is not None else ""}
    objectiveMetricName: Validation-accuracy
    additionalMetricNames: [Train-accuracy]
  algorithm:
    algorithmName: {algorithm}
    algorithmSettings: [{", ".join(f'{{name: {key}, value: "{value}"}}' for key, value in (settings or {}).items())}]
  parallelTrialCount: {parallel}
  maxTrialCount: {most}
{f"  maxFailedTrialCount: {failed}" if failed is not None else ""}
{f"  resumePolicy: {resume}" if resume else ""}
{extra}
  parameters:
    - name: lr
      parameterType: double
      feasibleSpace: {{min: "0.01", max: "0.9"}}
  trialTemplate:
    primaryContainerName: {"main" if spec is None else "pytorch"}
    trialParameters:
      - name: rate
        description: The learning rate
        reference: lr
    trialSpec:
{(spec or JOB) % command}
"""


# Prints the objective twice; the last one is the learning rate.
PRINTS = 'echo "epoch 1: Train-accuracy=0.5 Validation-accuracy=0.001"; echo "epoch 2: Train-accuracy=0.75 Validation-accuracy=$lr"'


# The first trial reports well and ends; those after it report worse values and wait.
WORSENS = """if mkdir %s/first; then for i in 1 2 3 4; do echo "Validation-accuracy=0.95"; done
else for i in 1 2; do echo "Validation-accuracy=$lr"; done; sleep 600; fi"""


def early_stopping(name, **settings):
    """Lines of a resource."""
    listed = ", ".join(f'{{name: {key}, value: "{value}"}}' for key, value in settings.items())
    return f"  earlyStopping:\n    algorithmName: {name}\n    algorithmSettings: [{listed}]\n"


class KatibCluster(Cluster):
    """A cluster whose early stopping is a service of its own, which reads the metrics of trials by gRPC."""

    def run(self, *arguments, **options):
        services = {"medianstop": {"command": [str(BIN / "volador"), "katib", "serve-suggestions", "--port={port}"]}}
        return super().run(*arguments, VOLADOR_KATIB_EARLY_STOPPING=json.dumps(services), **options)


class Resources(unittest.TestCase):
    make_cluster = Cluster

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.make_cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        self.folder = self.cluster.home.path / "notes" / self.id().rsplit(".", 1)[1]
        self.folder.mkdir(parents=True)

    def apply(self, text, status=200, **body):
        got, reply = self.cluster.ask("POST", "/resources", {"yaml": text, **body}, version="/api/v1/katib")
        self.assertEqual(got, status, reply)
        return reply

    def resources(self, kind, name="", labels=""):
        rows = self.cluster.get(f"/resources?kind={kind}&name={name}&labels={labels}", version="/api/v1/katib")["rows"]
        return [row["object"] | {"row": row} for row in rows]

    def delete(self, kind, name):
        return self.cluster.post("/resources:delete", {"kind": kind, "name": name}, version="/api/v1/katib")

    def one(self, kind, name):
        (found,) = self.resources(kind, name)
        return found

    def trials(self, name):
        return self.resources("Trial", labels=f"katib.kubeflow.org/experiment={name}")

    def conditions(self, found):
        return {one["type"]: one for one in found["status"]["conditions"]}

    def wait_end(self, name, kind="Experiment", seconds=120):
        def ended():
            found = self.one(kind, name)
            held = {one["type"] for one in found["status"]["conditions"] if one["status"] == "True"}
            return held & {"Succeeded", "Failed", "Complete"} and found
        try:
            return wait_until(f"{kind} {name} has ended", ended, seconds)
        except BaseException:
            print(json.dumps(self.one(kind, name), indent=1), json.dumps(self.trials(name)[:3], indent=1))
            raise

    def check_early_stops(self, name):
        found = self.wait_end(name)
        self.assertEqual(self.conditions(found)["Succeeded"]["reason"], "ExperimentMaxTrialsReached")
        status = found["status"]
        self.assertEqual((status["trials"], status["trialsSucceeded"], status["trialsEarlyStopped"], len(status["earlyStoppedTrialList"])), (4, 1, 3, 3))
        for row in self.trials(name):
            conditions = self.conditions(row)
            if "Succeeded" in conditions:
                self.assertEqual(status["currentOptimalTrial"]["bestTrialName"], row["metadata"]["name"])
                continue
            stopped = conditions["EarlyStopped"]
            self.assertEqual((stopped["status"], stopped["reason"], stopped["message"]), ("True", "TrialEarlyStopped", "Trial is early stopped"))
            self.assertEqual(conditions["Running"]["status"], "False")
            rate = float(row["spec"]["parameterAssignments"][0]["value"])
            (metric,) = [one for one in row["status"]["observation"]["metrics"] if one["name"] == "Validation-accuracy"]
            self.assertEqual(float(metric["latest"]), rate)  # What it reported counts.
            self.assertIsNotNone(row["status"]["completionTime"])
        wait_until("no job runs", lambda: not [row for row in self.cluster.get("/jobs?filter=state=running", version="/api/v1")["rows"] if row["spec"]["name"].startswith(f"{name}-")])


class Katib(Resources):
    def test_an_experiment_reaches_its_maximum_of_trials(self):
        reply = self.apply(experiment("most", PRINTS))
        self.assertEqual([(row["kind"], row["name"], row["action"], row["group"]) for row in reply["resources"]], [("Experiment", "most", "created", "kubeflow.org")])
        found = self.wait_end("most")
        conditions = self.conditions(found)
        self.assertEqual(list(conditions), ["Created", "Running", "Succeeded"])
        self.assertEqual((conditions["Running"]["status"], conditions["Succeeded"]["reason"]), ("False", "ExperimentMaxTrialsReached"))
        self.assertEqual(conditions["Succeeded"]["message"], "Experiment has succeeded because max trial count has reached")
        status = found["status"]
        self.assertEqual((status["trials"], status["trialsSucceeded"], len(status["succeededTrialList"])), (12, 12, 12))
        trials = {row["metadata"]["name"]: row for row in self.trials("most")}
        self.assertEqual(set(trials), set(status["succeededTrialList"]))
        rate = lambda row: float(row["spec"]["parameterAssignments"][0]["value"])
        best = max(trials.values(), key=rate)
        optimal = status["currentOptimalTrial"]
        self.assertEqual(optimal["bestTrialName"], best["metadata"]["name"])
        metrics = {one["name"]: one for one in optimal["observation"]["metrics"]}
        self.assertEqual((float(metrics["Validation-accuracy"]["max"]), float(metrics["Validation-accuracy"]["min"])), (rate(best), 0.001))
        self.assertEqual({key: float(metrics["Train-accuracy"][key]) for key in ("min", "max", "latest")}, {"min": 0.5, "max": 0.75, "latest": 0.75})
        for name, row in trials.items():
            self.assertRegex(name, r"^most-[a-z0-9]{8}$")
            self.assertEqual(self.conditions(row)["Succeeded"]["status"], "True")
        (suggestion,) = self.resources("Suggestion", "most")
        self.assertEqual(suggestion["status"]["suggestionCount"], 12)
        # The same again changes nothing; what cannot be changed is refused.
        self.assertEqual(self.apply(experiment("most", PRINTS))["resources"][0]["action"], "unchanged")
        self.apply(experiment("most", PRINTS, most=13), status=400)
        # The experiment of the cluster that ran it has ended too.
        self.assertEqual(self.cluster.get(f"/experiments/{found['row']['experiment']}")["state"], "COMPLETED")

    def test_each_estimator_of_bayesianoptimization_runs(self):
        estimators = {"GP": "gp_hedge", "RF": "EI", "ET": "LCB", "GBRT": "PI"}
        for estimator, function in estimators.items():
            settings = {"base_estimator": estimator, "acq_func": function, "n_initial_points": 3}
            reply = self.apply(experiment(f"bayes-{estimator.lower()}", PRINTS, most=6, algorithm="bayesianoptimization", settings=settings))
            self.assertFalse([one for one in reply["warnings"] if "setting" in one], reply["warnings"])
        for estimator in estimators:
            found = self.wait_end(f"bayes-{estimator.lower()}")
            self.assertEqual(self.conditions(found)["Succeeded"]["reason"], "ExperimentMaxTrialsReached")
            self.assertEqual(found["status"]["trialsSucceeded"], 6)
            rates = [row["spec"]["parameterAssignments"][0]["value"] for row in self.trials(f"bayes-{estimator.lower()}")]
            self.assertEqual(len(set(rates)), 6)

    def test_the_goal_stops_the_trials_that_run(self):
        script = f'if mkdir {self.folder}/first; then echo "Validation-accuracy=0.999"; else sleep 600; fi'
        self.apply(experiment("goal", script, goal=0.99, parallel=3))
        found = self.wait_end("goal")
        self.assertEqual(self.conditions(found)["Succeeded"]["reason"], "ExperimentGoalReached")
        wait_until("the rest is killed", lambda: all(self.conditions(row).keys() & {"Succeeded", "Killed"} for row in self.trials("goal")))
        wait_until("no job runs", lambda: not [row for row in self.cluster.get("/jobs?filter=state=running", version="/api/v1")["rows"] if row["spec"]["name"].startswith("goal-")])
        self.assertEqual(len([row for row in self.trials("goal") if "Succeeded" in self.conditions(row)]), 1)

    def test_failed_trials_end_it(self):
        self.apply(experiment("fails", "exit 3", failed=2))
        found = self.wait_end("fails")
        failed = self.conditions(found)["Failed"]
        self.assertEqual((failed["reason"], failed["message"]), ("ExperimentFailed", "Experiment has failed because max failed count has reached"))
        condition = [self.conditions(row)["Failed"] for row in self.trials("fails") if "Failed" in self.conditions(row)][0]
        self.assertEqual(condition["reason"], "TrialFailed. Job reason: BackoffLimitExceeded")
        self.assertEqual(condition["message"], "Trial has failed. Job message: Job has reached the specified backoff limit")

    def test_a_trial_without_the_metric(self):
        self.apply(experiment("silent", "echo nothing", failed=1, most=2, parallel=1))
        self.wait_end("silent")
        (trial,) = self.trials("silent")
        self.assertEqual(self.conditions(trial)["MetricsUnavailable"]["status"], "True")
        self.assertEqual(trial["status"]["observation"]["metrics"][0]["latest"], "unavailable")

    def test_pytorch_jobs_know_their_peers(self):
        spec = """
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        spec:
          pytorchReplicaSpecs:
            Master: &replica
              replicas: 1
              restartPolicy: Never
              template: &template
                spec:
                  containers:
                    - name: pytorch
                      image: example
                      command: ["bash", "-c", %s]
            Worker:
              replicas: 2
              restartPolicy: Never
              template: *template
"""
        script = f'echo "$MASTER_ADDR $WORLD_SIZE" > {self.folder}/$RANK; [ $RANK = 0 ] && echo "Validation-accuracy=$lr"; true'
        self.apply(experiment("ranks", script, most=1, parallel=1, spec=spec))
        found = self.wait_end("ranks")
        self.assertEqual(found["status"].get("trialsSucceeded"), 1, self.trials("ranks"))
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["0", "1", "2"])
        for file in self.folder.iterdir():
            address, world = file.read_text().split()
            self.assertTrue(address)
            self.assertEqual(world, "3")

    def test_a_restarted_experiment_goes_on(self):
        self.apply(experiment("again", PRINTS, most=2, parallel=2, resume="LongRunning"))
        self.wait_end("again")
        before = {row["metadata"]["name"] for row in self.trials("again")}
        self.apply(experiment("again", PRINTS, most=4, parallel=2, resume="LongRunning"))
        wait_until("it has 4 trials", lambda: self.one("Experiment", "again")["status"].get("trialsSucceeded") == 4)
        found = self.wait_end("again")
        self.assertLess(before, set(found["status"]["succeededTrialList"]))
        self.assertEqual(found["status"]["trials"], 4)

    def test_a_head_that_is_killed_starts_no_trial_twice(self):
        script = f'echo "$VOLADOR_TRIAL" >> {self.folder}/runs; while [ ! -e {self.folder}/go ]; do read -t 0.05 < <(:) || true; done; ' + PRINTS
        self.apply(experiment("killed", script, most=6, parallel=2))
        runs = self.folder / "runs"
        wait_until("two trials run", lambda: runs.exists() and len(runs.read_text().split()) == 2)
        self.cluster.kill(self.cluster.pid_of("head"))
        (self.folder / "go").touch()
        self.cluster.start_head()
        found = self.wait_end("killed")
        self.assertEqual((found["status"]["trials"], found["status"]["trialsSucceeded"]), (6, 6))
        self.assertEqual(sorted(runs.read_text().split()), sorted(set(runs.read_text().split())))

    def test_bad_trials_stop_early(self):
        self.apply(experiment("median", WORSENS % self.folder, parallel=1, most=4, extra=early_stopping("medianstop", min_trials_required=1, start_step=2)))
        self.check_early_stops("median")

    def test_trials_of_pbt_begin_with_the_checkpoints_of_their_parents(self):
        notes = f"{self.folder}/$KATIB_TRIAL_NAME"
        script = f"mkdir -p checkpoints/deep; ls checkpoints/deep > {notes}; touch checkpoints/deep/$KATIB_TRIAL_NAME; " + PRINTS
        text = experiment("pbt", script, parallel=4, most=12, algorithm="pbt", settings={"suggestion_trial_dir": "checkpoints", "n_population": 5})
        self.apply(text)
        found = self.wait_end("pbt")
        self.assertEqual(found["status"]["trialsSucceeded"], 12, self.trials("pbt")[:2])
        found_by = lambda name: set((self.folder / name).read_text().split())
        inherited = 0
        for row in self.trials("pbt"):
            name, parent = row["metadata"]["name"], row["metadata"]["labels"].get("pbt.suggestion.katib.kubeflow.org/parent")
            self.assertEqual(found_by(name), found_by(parent) | {parent} if parent else set())
            inherited += parent is not None
        self.assertGreaterEqual(inherited, 5)

    def test_each_trial_of_pbt_has_a_folder_of_its_own_at_an_absolute_path(self):
        shared = self.folder / "data"
        script = f"touch {shared}/$KATIB_TRIAL_NAME; [ $(ls {shared} | wc -l) = 1 ] || exit 3; " + PRINTS
        text = experiment("apart", script, parallel=2, most=4, algorithm="pbt", settings={"suggestion_trial_dir": shared, "n_population": 5})
        self.apply(text)
        found = self.wait_end("apart")
        if os.geteuid() == 0:  # Others have no right to mount.
            self.assertEqual((found["status"].get("trialsSucceeded"), list(shared.iterdir())), (4, []))

    def test_delete_removes_trials_and_jobs(self):
        self.apply(experiment("gone", "sleep 600", parallel=2))
        running = lambda: [row for row in self.cluster.get("/jobs?filter=state=running", version="/api/v1")["rows"] if row["spec"]["name"].startswith("gone-")]
        wait_until("trials run", lambda: len(running()) == 2)
        ran_by = self.one("Experiment", "gone")["row"]["experiment"]
        self.apply(experiment("done", PRINTS, parallel=2, most=2))
        self.wait_end("done")
        self.delete("experiments", "gone")
        self.delete("experiments", "done")
        self.assertEqual((self.resources("Experiment", "gone"), self.trials("gone"), self.resources("Suggestion", "gone")), ([], [], []))
        wait_until("no job runs", lambda: not running())
        left = lambda: [row["id"] for row in self.cluster.get("/jobs", version="/api/v1")["rows"] if row["spec"]["name"].startswith(("gone-", "done-"))]
        wait_until("their jobs are not listed", lambda: not left())
        wait_until("its experiment is gone", lambda: self.cluster.ask("GET", f"/experiments/{ran_by}")[0] == 404)
        self.assertEqual(self.cluster.ask("POST", "/resources:delete", {"kind": "Experiment", "name": "gone"}, version="/api/v1/katib")[0], 404)

    def test_a_training_job_of_its_own(self):
        text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hello}\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: main, image: example, command: [bash, -c, 'echo hello > %s/said']}]\n" % self.folder
        self.assertEqual(self.apply(text, dry_run=True)["resources"][0]["action"], "created")
        self.assertEqual(self.resources("Job", "hello"), [])
        self.apply(text)
        found = self.wait_end("hello", "Job")
        self.assertEqual(found["status"]["succeeded"], 1)
        self.assertEqual((self.folder / "said").read_text(), "hello\n")
        self.delete("Job", "hello")
        wait_until("its job is gone", lambda: not [row for row in self.cluster.get("/jobs", version="/api/v1")["rows"] if row["id"] == found["row"]["job"]])

    def test_a_watch_hears_of_what_changes(self):
        watch = lambda after, **selection: self.cluster.post("/resources:watch", {"after": after, "wait_ms": 60_000, "selection": selection}, version="/api/v1/katib")
        first = self.cluster.get("/resources", version="/api/v1/katib")["rows"]
        version = max((int(row["version"]) for row in first), default=1)
        self.apply(experiment("seen", "sleep 600", parallel=1))
        states = set()
        while "Running" not in states:
            reply = watch(version, kind="Experiment", name="seen")
            version = int(reply["version"])
            for row in reply.get("resources", []):
                states |= {one["type"] for one in row["object"]["status"]["conditions"]}
        self.delete("Experiment", "seen")
        gone = []
        while not gone:
            reply = watch(version, kind="Experiment", name="seen")
            version = int(reply["version"])
            gone = [row for row in reply.get("resources", []) if row.get("deleted")]
        self.assertEqual(gone[0]["name"], "seen")


class ExternalEarlyStopping(Resources):
    make_cluster = KatibCluster

    def test_an_external_service_stops_trials_early(self):
        self.apply(experiment("outside", WORSENS % self.folder, parallel=1, most=4, extra=early_stopping("medianstop", min_trials_required=1, start_step=2)))
        self.check_early_stops("outside")
        (log,) = self.cluster.home.path.glob("volador/clusters/heron/head/katib_services/medianstop-default.outside.log")
        self.assertIn("serves", log.read_text())
        refused = self.apply(experiment("wrong", "true", extra=early_stopping("medianstop", start_step=0)), status=400)
        self.assertIn("start_step must be greater or equal than one (>=1)", json.dumps(refused))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
