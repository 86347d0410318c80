"""volador.katib and volador.kubeflow, with operations that the test answers."""

import json
import subprocess

import pytest

from volador import exceptions, jobs, katib, kubeflow
from volador.katib import models, search, types
from volador.kubeflow import optimizer, trainer


class FakeHead:
    """Keeps resources by kind and name, as the head of a cluster does, and the requests in order."""

    def __init__(self):
        self.calls = []
        self.rows = {}
        self.version = 0
        self.logs = []
        self.away = 0
        self.changes = []  # Each is called at a wait.

    def call(self, operation, text):
        request = json.loads(text)
        self.calls.append((operation, request))
        if self.away > 0:
            self.away -= 1
            raise exceptions.UnavailableError("the head is away")
        return json.dumps(getattr(self, "_" + operation.split("/")[1])(request))

    def send_code(self, folder, environment):
        self.calls.append(("send_code", folder))
        return "ab12"

    def put(self, resource, **fields):
        self.version += 1
        metadata = resource["metadata"]
        row = {"kind": resource["kind"], "namespace": metadata.get("namespace", "default"), "name": metadata["name"], "job": "", **fields}
        self.rows[resource["kind"], metadata["name"]] = {**row, "object": json.dumps(resource), "version": str(self.version)}

    def _found(self, selection):
        return [
            row
            for row in self.rows.values()
            if row["kind"] == selection["kind"]
            and row["namespace"] == selection["namespace"]
            and selection.get("name", "") in ("", row["name"])
            and selection.get("labels", {}).items() <= json.loads(row["object"])["metadata"].get("labels", {}).items()
        ]

    def _ApplyKatibResources(self, request):
        resource = json.loads(request["yaml"])
        assert request["namespace"] == resource["metadata"]["namespace"] and len(request["request_id"]) == 32
        key = (resource["kind"], resource["metadata"]["name"])
        if request["create_only"] and key in self.rows:
            raise exceptions.InvalidArgumentError(f"{key[0]} {key[1]} is there already")
        self.put(resource)
        return {"resources": [], "warnings": ["digits.json:1:1: a warning"]}

    def _ListKatibResources(self, request):
        return {"resources": self._found(request), "version": str(self.version), "total": "1"}

    def _WatchKatibResources(self, request):
        if self.changes:
            self.changes.pop(0)()
        found = [row for row in self._found(request["selection"]) if int(row["version"]) > request["after"]]
        return {"resources": found, "version": str(self.version)}

    def _DeleteKatibResource(self, request):
        if (request["kind"], request["name"]) not in self.rows:
            raise exceptions.NotFoundError("there is no such resource")
        del self.rows[request["kind"], request["name"]]
        return {}

    def _ReportObservationLog(self, request):
        self.logs += request["observation_log"]["metric_logs"]
        return {}

    def _GetObservationLog(self, request):
        return {"observation_log": {"metric_logs": self.logs}}


@pytest.fixture
def head(monkeypatch):
    made = FakeHead()
    monkeypatch.setattr(jobs, "_connect", lambda: made)
    return made


def condition(kind, status="True", reason="", message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def applied(head):
    return json.loads([request for name, request in head.calls if name == "Katib/ApplyKatibResources"][-1]["yaml"])


def run_container(resource, assignments):
    """Runs the command of a trial, with values in place of ${trialParameters.NAME}."""
    container = resource["spec"]["trialTemplate"]["trialSpec"]["spec"]["template"]["spec"]["containers"][0]
    words = container["command"]
    for name, value in assignments.items():
        words = [word.replace(f"${{trialParameters.{name}}}", value) for word in words]
    return run_words(words)


def run_words(words):
    """As a container has them: $$ is $."""
    return subprocess.run([word.replace("$$", "$") for word in words], capture_output=True, text=True)


def test_tune_sends_the_function(head):
    def objective(parameters):
        import math

        print(f"accuracy={math.sqrt(float(parameters['lr']))} {parameters} $$ {'$' '(HOME)'}")

    client = katib.KatibClient()
    parameters = {"lr": search.double(min=0.01, max=0.03, step=0.01), "act": search.categorical(["relu", "it's $(x) \"a\""]), "epochs": 3}
    name = client.tune(
        "digits", objective, parameters, objective_metric_name="accuracy", additional_metric_names=["loss"], objective_goal=0.99,
        algorithm_name="tpe", algorithm_settings={"random_state": 1}, max_trial_count=12, parallel_trial_count=3, max_failed_trial_count=2,
        resources_per_trial={"cpu": 2, "gpu": 1}, env_per_trial={"A": 1},
    )  # fmt: skip
    assert name == "digits"
    resource = applied(head)
    assert resource["apiVersion"] == "kubeflow.org/v1beta1" and resource["metadata"] == {"name": "digits", "namespace": "default"}
    spec = resource["spec"]
    assert spec["objective"] == {"type": "maximize", "goal": 0.99, "objectiveMetricName": "accuracy", "additionalMetricNames": ["loss"]}
    assert spec["algorithm"] == {"algorithmName": "tpe", "algorithmSettings": [{"name": "random_state", "value": "1"}]}
    assert (spec["maxTrialCount"], spec["parallelTrialCount"], spec["maxFailedTrialCount"]) == (12, 3, 2)
    assert spec["parameters"][0] == {"name": "lr", "parameterType": "double", "feasibleSpace": {"min": "0.01", "max": "0.03", "step": "0.01"}}
    assert spec["metricsCollectorSpec"] == {"collector": {"kind": "StdOut"}}
    template = spec["trialTemplate"]
    assert template["trialParameters"] == [{"name": "lr", "reference": "lr"}, {"name": "act", "reference": "act"}]
    container = template["trialSpec"]["spec"]["template"]["spec"]["containers"][0]
    assert container["name"] == template["primaryContainerName"] and container["env"] == [{"name": "A", "value": "1"}]
    assert container["resources"]["limits"] == {"cpu": "2", "nvidia.com/gpu": "1"} and "image" not in container
    assert "$$$$" in container["command"][3]
    run = run_container(resource, {"lr": "0.04", "act": 'it\'s $(x) "a"'})
    assert run.stdout == "accuracy=0.2 {'lr': '0.04', 'act': 'it\\'s $(x) \"a\"', 'epochs': 3} $$ $(HOME)\n", run.stderr


def test_tune_sends_commands_and_groups(head, tmp_path):
    client = katib.KatibClient(namespace="team")
    client.tune("shell", "echo loss=${trialParameters.lr}", {"lr": search.double(0, 1)}, objective_metric_name="loss", objective_type="minimize",
                metrics_collector_config={"kind": "Push"}, code=tmp_path)  # fmt: skip
    assert head.calls[0] == ("send_code", str(tmp_path)) and head.calls[1][1]["files_sha256"] == "ab12"
    assert run_container(applied(head), {"lr": "0.5"}).stdout == "loss=0.5\n"
    assert applied(head)["metadata"]["namespace"] == "team" and applied(head)["spec"]["metricsCollectorSpec"] == {"collector": {"kind": "Push"}}
    group = types.TrainerResources(num_workers=3, num_procs_per_worker=2, resources_per_worker={"gpu": 2})
    client.tune("group", ["python3", "t.py", "${trialParameters.lr}"], {"lr": search.int(1, 3)}, objective_metric_name="loss", resources_per_trial=group)
    trial = applied(head)["spec"]["trialTemplate"]["trialSpec"]
    assert trial["kind"] == "PyTorchJob" and trial["spec"]["nprocPerNode"] == "2"
    assert trial["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2


def test_tune_installs_packages(head, tmp_path, monkeypatch):
    def objective(parameters):
        print(f"loss={parameters['lr']}")

    katib.KatibClient().tune("p", objective, {"lr": search.int(1, 2)}, objective_metric_name="loss", packages_to_install=["numpy<2", "a b"])
    fake = tmp_path / "python3"
    fake.write_text('#!/bin/sh\nif [ "$1" = -m ]; then shift; printf "%s|" "$@"; echo; else exec /usr/bin/env -i PATH="$OLD" python3 "$@"; fi\n')
    fake.chmod(0o755)
    monkeypatch.setenv("OLD", __import__("os").environ["PATH"])
    monkeypatch.setenv("PATH", f"{tmp_path}:{__import__('os').environ['PATH']}")
    run = run_container(applied(head), {"lr": "1"})
    assert run.stdout == "pip|install|--quiet|--disable-pip-version-check|--index-url=https://pypi.org/simple|numpy<2|a b|\nloss=1\n", run.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective_metric_name": None}, "objective_metric_name"),
        ({"parameters": {"lr": 1}}, "parameters: expected at least one of search.double"),
        ({"objective": lambda parameters: None}, "expected a function that `def` defines"),
        ({"objective": "echo 1"}, "the command does not use 'lr'"),
        ({"objective": "echo ${trialParameters.lr}", "parameters": {"lr": search.int(1, 2), "epochs": 3}}, "epochs: a command gets searched"),
        ({"parameters": {"lr": search.int(1, 2), "model": object()}}, "parameter 'model': expected a value that can be written"),
        ({"env_per_trial": [1]}, "env_per_trial: expected a map"),
    ],
)
def test_tune_refuses_wrong_arguments(head, changes, message):
    def objective(parameters):
        pass

    arguments = {"name": "x", "objective": objective, "parameters": {"lr": search.int(1, 2)}, "objective_metric_name": "loss", **changes}
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        katib.KatibClient().tune(**arguments)
    assert head.calls == []


def finished(name="digits", kind="Succeeded"):
    metrics = [{"name": "accuracy", "min": "0.1", "max": "0.9", "latest": "0.8"}]
    status = {
        "startTime": "2022-01-23T05:13:00Z",
        "conditions": [condition("Created"), condition("Running", "False"), condition(kind, reason="Experiment" + kind, message="it has")],
        "trials": 2,
        "trialsSucceeded": 1,
        "currentOptimalTrial": {
            "bestTrialName": "digits-a", "observation": {"metrics": metrics}, "parameterAssignments": [{"name": "lr", "value": "0.02"}],
        },
    }  # fmt: skip
    spec = {
        "objective": {"type": "maximize", "objectiveMetricName": "accuracy"},
        "algorithm": {"algorithmName": "random"},
        "parameters": [{"name": "lr", "parameterType": "double", "feasibleSpace": {"min": "0", "max": "1"}}],
        "maxTrialCount": 2,
        "parallelTrialCount": 1,
        "trialTemplate": {"trialSpec": {"metadata": {"labels": {"some_label": "x"}}}},
    }
    return {"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "metadata": {"name": name}, "spec": spec, "status": status}


def trial(name, kind, job=""):
    labels = {"katib.kubeflow.org/experiment": "digits"}
    status = {"conditions": [condition(kind)], "observation": {"metrics": [{"name": "accuracy", "min": "1", "max": "1", "latest": "1"}]}}
    spec = {"parameterAssignments": [{"name": "lr", "value": "0.02"}]}
    return {"kind": "Trial", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def test_experiments_are_read_as_objects(head):
    head.put(finished())
    client = katib.KatibClient()
    experiment = client.get_experiment("digits")
    assert experiment.spec.max_trial_count == experiment.spec.maxTrialCount == experiment["spec"]["max_trial_count"] == 2
    assert experiment.spec.early_stopping is None and experiment.status.conditions[2].type == "Succeeded"
    assert experiment.to_dict()["spec"]["trial_template"]["trial_spec"] == {"metadata": {"labels": {"some_label": "x"}}}
    assert experiment.to_dict()["status"]["current_optimal_trial"]["best_trial_name"] == "digits-a"
    assert experiment.to_resource() == finished()
    with pytest.raises(AttributeError, match="has no member 'max_trial_counts'; did you mean max_trial_count"):
        _ = experiment.spec.max_trial_counts
    assert [each.metadata.name for each in client.list_experiments()] == ["digits"] and client.list_experiments("other") == []
    assert client.is_experiment_created("digits") and client.is_experiment_succeeded("digits")
    assert not client.is_experiment_running("digits") and not client.is_experiment_failed("digits") and not client.is_experiment_restarting("digits")
    best = client.get_optimal_hyperparameters("digits")
    assert (best.best_trial_name, best.parameter_assignments[0].value, best.observation.metrics[0].max) == ("digits-a", "0.02", "0.9")
    with pytest.raises(RuntimeError, match="experiment default/none cannot be read: there is no Experiment none"):
        client.get_experiment("none")


def test_trials_and_metrics_are_read(head, monkeypatch):
    head.put(trial("digits-a", "Succeeded"))
    head.put(trial("digits-b", "Failed"))
    client = katib.KatibClient()
    assert [each.metadata.name for each in client.list_trials("digits")] == ["digits-a", "digits-b"] and client.list_trials("other") == []
    (details,) = client.get_success_trial_details("digits")
    assert details["name"] == "digits-a" and details["parameter_assignments"][0].name == "lr" and details["metrics"][0].latest == "1"
    assert client.get_trial("digits-b").status.conditions[0].type == "Failed"
    head.put({"kind": "Suggestion", "metadata": {"name": "digits"}, "spec": {"requests": 2}, "status": {"suggestionCount": 2}})
    assert client.get_suggestion("digits").status.suggestion_count == 2 and len(client.list_suggestions()) == 1
    monkeypatch.setenv("KATIB_TRIAL_NAME", "digits-a")
    head.away = 1
    katib.report_metrics({"accuracy": 0.5, "loss": float("nan")})
    assert head.calls[-1][1]["trial_name"] == "digits-a"
    logs = client.get_trial_metrics("digits-a")
    assert [(log.metric.name, log.metric.value) for log in logs] == [("accuracy", "0.5"), ("loss", "nan")] and logs[0].time_stamp.endswith("Z")
    with pytest.raises(RuntimeError, match="metric 'accuracy': expected a number, got 'high'"):
        katib.report_metrics({"accuracy": "high"})
    monkeypatch.delenv("KATIB_TRIAL_NAME")
    with pytest.raises(ValueError, match="KATIB_TRIAL_NAME is not set"):
        katib.report_metrics({"accuracy": 1})


def test_a_wait_ends_with_the_condition(head):
    running = finished()
    running["status"]["conditions"] = [condition("Created"), condition("Running")]
    head.put(running)
    client = katib.KatibClient()
    assert client.wait_for_experiment_condition("digits", expected_condition="Running").metadata.name == "digits"
    head.changes = [lambda: None, lambda: head.put(running), lambda: head.put(finished())]
    assert client.wait_for_experiment_condition("digits").status.trials_succeeded == 1
    head.put(running)
    head.changes = [lambda: head.put(finished(kind="Failed"))]
    with pytest.raises(RuntimeError, match="it has failed: ExperimentFailed: it has"):
        client.wait_for_experiment_condition("digits")
    head.put(running)
    with pytest.raises(TimeoutError, match="experiment default/digits is not Succeeded"):
        client.wait_for_experiment_condition("digits", timeout=0)
    with pytest.raises(ValueError, match="expected one of Created"):
        client.wait_for_experiment_condition("digits", expected_condition="Done")


def test_experiments_are_created_edited_and_deleted(head):
    client = katib.KatibClient()
    given = models.V1beta1Experiment(metadata=models.V1ObjectMeta(name="digits"), spec=models.V1beta1ExperimentSpec(max_trial_count=2))
    assert client.create_experiment(given) == "digits"
    assert applied(head) == {"apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment", "metadata": {"name": "digits", "namespace": "default"}, "spec": {"maxTrialCount": 2}}
    with pytest.raises(RuntimeError, match="experiment default/digits is not created: .*there already"):
        client.create_experiment({"metadata": {"name": "digits"}, "spec": given.spec})
    made = client.create_experiment({"metadata": {"generateName": "run-", "namespace": "team"}, "spec": {}})
    assert made.startswith("run-") and len(made) == 9
    with pytest.raises(ValueError, match="expected metadata.name"):
        client.create_experiment({"metadata": {}})
    head.put(finished())
    head.rows["Experiment", "digits"]["namespace"] = "default"
    edited = finished()
    edited["metadata"]["namespace"] = "default"
    head.put(edited)
    client.edit_experiment_budget("digits", max_trial_count=20)
    assert applied(head)["spec"]["maxTrialCount"] == 20 and "status" not in applied(head)
    with pytest.raises(ValueError, match="expected max_trial_count"):
        client.edit_experiment_budget("digits")
    client.delete_experiment("digits")
    with pytest.raises(RuntimeError, match="experiment default/digits is not deleted: .*no such resource"):
        client.delete_experiment("digits")


def test_train_jobs(head, monkeypatch):
    def train(lr, layers=2):
        print(f"loss={lr * layers}")

    client = kubeflow.TrainerClient()
    given = trainer.CustomTrainer(func=train, func_args={"lr": 0.5}, num_nodes=2, resources_per_node={"gpu": 1}, env={"A": "1"})
    name = client.train(trainer=given)
    resource = applied(head)
    assert resource["kind"] == "TrainJob" and resource["metadata"]["name"] == name and len(name) == 12 and name[0].isalpha()
    part = resource["spec"]["trainer"]
    assert part["numNodes"] == 2 and part["env"] == [{"name": "A", "value": "1"}] and part["resourcesPerNode"]["limits"] == {"nvidia.com/gpu": "1"}
    assert run_words(part["command"]).stdout == "loss=1.0\n"
    job = client.get_job(name)
    assert (job.status, job.num_nodes, job.runtime.name, [step.name for step in job.steps]) == ("Created", 2, "torch-distributed", ["node-0", "node-1"])
    resource["status"] = {"conditions": [condition("Complete")]}
    resource["metadata"]["creationTimestamp"] = "2022-01-23T05:13:00Z"
    head.changes = [lambda: head.put(resource, job="job-7")]
    assert client.wait_for_job_status(name).creation_timestamp.year == 2022
    assert [each.name for each in client.list_jobs()] == [name] and client.list_jobs(runtime="plain") == []
    asked = []

    class Job:
        def logs(self, rank):
            asked.append(rank)
            return [jobs.Line(rank, "n", False, "loss=1.0")]

    monkeypatch.setattr(jobs, "get", lambda job: asked.append(job) or Job())
    assert list(client.get_job_logs(name, step="node-1")) == ["loss=1.0"] and asked == ["job-7", 1]
    resource["status"] = {"conditions": [condition("Failed")]}
    head.put(resource)
    with pytest.raises(RuntimeError, match="has failed"):
        client.wait_for_job_status(name)
    assert client.wait_for_job_status(name, status={"Failed"}).status == "Failed"
    client.delete_job(name)
    assert client.list_jobs() == []
    for arguments in ({}, {"trainer": given, "initializer": 1}, {"trainer": given, "options": [1]}):
        with pytest.raises(ValueError):
            client.train(**arguments)
    with pytest.raises(ValueError, match="status: expected some of Created"):
        client.wait_for_job_status(name, status={"Done"})
    assert [each.name for each in client.list_runtimes()] == ["torch-distributed", "plain"]


def test_optimization_jobs(head):
    def train(lr, width, act):
        print(f"loss={lr + width} {act!r}")

    client = kubeflow.OptimizerClient()
    name = client.optimize(
        trainer.TrainJobTemplate(trainer=trainer.CustomTrainer(func=train)),
        search_space={"lr": optimizer.Search.loguniform(0.1, 1), "width": optimizer.Search.choice([1, 2]), "act": optimizer.Search.choice(["a", "b"])},
        objectives=[optimizer.Objective("loss"), optimizer.Objective("accuracy", "maximize")],
        algorithm=optimizer.RandomSearch(random_state=3),
        trial_config=optimizer.TrialConfig(num_trials=4, parallel_trials=2),
    )
    spec = applied(head)["spec"]
    assert spec["objective"] == {"type": "minimize", "objectiveMetricName": "loss", "additionalMetricNames": ["accuracy"]}
    assert spec["algorithm"]["algorithmSettings"] == [{"name": "random_state", "value": "3"}]
    assert spec["parameters"][0]["feasibleSpace"] == {"min": "0.1", "max": "1", "distribution": "logUniform"}
    words = spec["trialTemplate"]["trialSpec"]["spec"]["trainer"]["command"]
    for key, value in {"lr": "0.5", "width": "2", "act": "1"}.items():
        words = [word.replace(f"${{trialParameters.{key}}}", value) for word in words]
    assert run_words(words).stdout == "loss=2.5 '1'\n"
    assert client.get_best_results(name) is None and client.get_job(name).status == "Created"
    done = finished(name)
    head.put(done)
    head.put(trial("digits-a", "Succeeded"), job="job-8")
    result = client.get_best_results(name)
    assert result.parameters == {"lr": "0.02"} and result.metrics[0].max == "0.9"
    job = client.wait_for_job_status(name)
    assert (job.status, job.trial_config.num_trials, job.algorithm.algorithm_name) == ("Complete", 2, "random")
    assert [each.name for each in client.list_jobs()] == [name]
    client.delete_job(name)
    with pytest.raises(ValueError, match="search_space: lr: expected"):
        client.optimize(trainer.TrainJobTemplate(trainer=trainer.CustomTrainer(func=train)), search_space={"lr": 3})
