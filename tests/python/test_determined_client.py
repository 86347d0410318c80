"""determined.experimental.client, with operations that the test answers."""

import datetime
import json
import math

import pytest

pytest.importorskip("numpy")

import volador  # noqa: E402
from volador.compat.determined.experimental import ExperimentState, ModelSortBy, OrderBy, TrialState, _api, client  # noqa: E402

EXPERIMENT = {"id": "5", "name": "digits", "state": "ACTIVE", "progress": 0.5, "archived": False, "reason": "", "smaller_is_better": True, "config": '{"name":"digits"}'}
TRIAL = {"id": "9", "experiment": "5", "state": "COMPLETED", "hparams": '{"lr":0.1}', "restarts": "1", "batches": "30", "best_metric": 0.25, "job": "", "latest_checkpoint": "c3"}


MODEL = {"id": "3", "name": "digits", "description": "all of them", "notes": "", "labels": ["vision"], "metadata": '{"a":1}', "user": "ada", "archived": False, "created_ms": "1000", "changed_ms": "2000", "newest_version": "2", "aliases": {"production": "1"}}
VERSION = {"model": "digits", "version": "2", "name": "", "comment": "", "notes": "", "metadata": "{}", "user": "ada", "created_ms": "2000"}


def checkpoint(uuid, batches, metric=None, storage="", **metrics):
    row = {"id": uuid, "experiment": "5", "trial": "9", "batches": str(batches), "state": "COMPLETED", "resources": {"a": "3"}, "metadata": '{"steps_completed":1}'}
    return {**row, "metrics": json.dumps(metrics), "storage": storage, **({} if metric is None else {"metric": metric})}


class Cluster:
    def __init__(self):
        self.calls = []
        self.replies = {}

    def call(self, operation, text):
        operation, request = operation.removeprefix("Experiments/").removeprefix("Models/"), json.loads(text)
        if "request_id" in request:
            assert len(request.pop("request_id")) == 32
        self.calls.append((operation, request))
        reply = self.replies[operation]
        if isinstance(reply, list):
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return json.dumps(reply)

    def send_code(self, folder):
        self.calls.append(("send_code", folder))
        return "ab12"


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(_api.jobs, "_connect", lambda: made)
    return made


def test_an_experiment_is_created_watched_and_changed(cluster, tmp_path):
    cluster.replies = {
        "CreateExperiment": {"experiment": EXPERIMENT, "warnings": []},
        "ChangeExperiment": {**EXPERIMENT, "state": "PAUSED"},
        "GetExperiment": [EXPERIMENT, volador.exceptions.UnavailableError("away"), {**EXPERIMENT, "state": "COMPLETED"}, EXPERIMENT],
        "ListTrialInfos": {"trials": [TRIAL], "total": "1"},
    }
    (tmp_path / "config.yaml").write_text("name: digits\n")
    experiment = client.create_experiment(tmp_path / "config.yaml", model_dir=tmp_path)
    assert cluster.calls == [
        ("send_code", str(tmp_path)),
        ("CreateExperiment", {"config": "name: digits\n", "config_name": "config.yaml", "files_sha256": "ab12"}),
    ]
    client.create_experiment({"name": "digits"})
    assert cluster.calls[-1] == ("CreateExperiment", {"config": '{"name": "digits"}', "config_name": "", "files_sha256": ""})
    assert (experiment.id, experiment.state) == (5, ExperimentState.ACTIVE)
    for command in ("pause", "activate", "cancel", "kill", "archive", "unarchive", "delete"):
        getattr(experiment, command)()
        assert cluster.calls[-1] == ("ChangeExperiment", {"id": 5, "command": command})
    assert experiment.state is ExperimentState.PAUSED
    assert experiment.wait(interval=0) is ExperimentState.COMPLETED
    assert experiment.get_config() == {"name": "digits"}
    trial = experiment.get_trials()[0]
    assert (trial.id, trial.state, trial.hparams, trial.best_metric, trial.restarts) == (9, TrialState.COMPLETED, {"lr": 0.1}, 0.25, 1)
    with pytest.raises(ValueError, match="includes are not supported"):
        client.create_experiment({}, includes=["x"])


def test_checkpoints_are_ordered_and_downloaded(cluster, tmp_path, monkeypatch):
    stored = tmp_path / "store" / "c1"
    stored.mkdir(parents=True)
    (stored / "weights").write_text("w")
    (stored / "metadata.json").write_text("{}")
    rows = [checkpoint("c3", 30), checkpoint("c2", 20, 0.5, accuracy=0.9), checkpoint("c1", 10, 0.25, str(stored), accuracy=0.1), checkpoint("c0", 5, math.nan)]
    cluster.replies = {"GetExperiment": EXPERIMENT, "ListCheckpoints": {"checkpoints": rows, "total": "4"}, "GetTrialInfo": TRIAL, "DeleteCheckpoints": {}}
    experiment, trial = client.get_experiment(5), client.get_trial(9)
    assert [each.uuid for each in experiment.top_n_checkpoints(5)] == ["c1", "c2"]
    assert experiment.top_checkpoint(sort_by="accuracy", smaller_is_better=False).uuid == "c2"
    with pytest.raises(ValueError, match="no checkpoint has a validation with loss"):
        experiment.top_checkpoint(sort_by="loss")
    assert trial.top_checkpoint().uuid == "c1" and trial.select_checkpoint(latest=True).uuid == "c3" and trial.select_checkpoint(uuid="c2").uuid == "c2"
    with pytest.raises(ValueError, match="exactly one of latest, best and uuid"):
        trial.select_checkpoint(latest=True, best=True)
    best = experiment.top_checkpoint()
    assert (best.steps_completed, best.resources, best.metadata, best.metrics) == (10, {"a": 3}, {"steps_completed": 1}, {"accuracy": 0.1})
    monkeypatch.chdir(tmp_path)
    assert best.download() == best.download() == "checkpoints/c1" and (tmp_path / "checkpoints" / "c1" / "weights").read_text() == "w"
    best.delete()
    assert cluster.calls[-1] == ("DeleteCheckpoints", {"ids": ["c1"]})


def test_metrics_are_united_by_step(cluster):
    series = [
        {"trial": "9", "group": "validation", "metric": "loss", "batches": ["10", "20"], "values": [0.5, "NaN"], "times_ms": ["1000", "2000"]},
        {"trial": "9", "group": "validation", "metric": "accuracy", "batches": ["10"], "values": [0.75], "times_ms": ["1000"]},
    ]
    cluster.replies = {"GetTrialInfo": TRIAL, "GetMetrics": {"series": series}}
    first, second = client.get_trial(9).iter_metrics("validation")
    assert cluster.calls[-1] == ("GetMetrics", {"trials": [9], "group": "validation", "max_points": -1})
    assert (first.steps_completed, first.metrics) == (10, {"loss": 0.5, "accuracy": 0.75})
    assert first.end_time == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc) and math.isnan(second.metrics["loss"])


def test_models_have_versions_that_are_checkpoints(cluster):
    version = {**VERSION, "checkpoint_info": checkpoint("c2", 20, 0.5), "aliases": ["staging"]}
    cluster.replies = {
        "CreateModel": MODEL,
        "GetModel": MODEL,
        "RegisterModelVersion": version,
        "GetModelVersion": version,
        "ListModelVersions": {"versions": [version, {**VERSION, "version": "1"}], "total": "2"},
        "EditModelVersion": {**version, "name": "second", "notes": "n"},
        "DeleteModelVersion": {},
        "EditModel": MODEL,
        "DeleteModel": {},
    }
    model = client.create_model("digits", "all of them", metadata={"a": 1}, labels=["vision"])
    assert cluster.calls == [("CreateModel", {"model": {"name": "digits", "description": "all of them", "metadata": '{"a": 1}', "labels": ["vision"], "workspace": ""}})]
    assert (model.model_id, model.name, model.metadata, model.labels, model.username, model.aliases) == (3, "digits", {"a": 1}, ["vision"], "ada", {"production": 1})
    assert model.last_updated_time == datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.timezone.utc)
    made = model.register_version("c2", comment="all data")
    assert cluster.calls[-1] == ("RegisterModelVersion", {"model": "3", "version": {"checkpoint": "c2", "name": "", "comment": "all data"}})
    assert (made.model_version, made.model_name, made.checkpoint.uuid, made.checkpoint.metric, made.aliases) == (2, "digits", "c2", 0.5, ["staging"])
    assert model.get_version().model_version == 2 and cluster.calls[-1] == ("GetModelVersion", {"model": "3", "version": ""})
    model.get_version("production")
    assert cluster.calls[-1] == ("GetModelVersion", {"model": "3", "version": "production"})
    assert [each.model_version for each in model.get_versions()] == [2, 1] and [each.model_version for each in model.list_versions(OrderBy.ASC)] == [1, 2]
    made.set_name("second")
    assert cluster.calls[-1] == ("EditModelVersion", {"model": "3", "version": 2, "name": "second"})
    made.set_notes("n")
    assert (made.name, made.notes) == ("second", "n")
    made.delete()
    assert cluster.calls[-1] == ("DeleteModelVersion", {"model": "3", "version": 2})
    edits = {
        "add_metadata": ({"b": 2}, {"metadata": '{"a": 1, "b": 2}'}),
        "remove_metadata": (["a"], {"metadata": "{}"}),
        "set_labels": (["new"], {"add_labels": ["new"], "remove_labels": ["vision"]}),
        "set_description": ("d", {"description": "d"}),
    }
    for method, (argument, change) in edits.items():
        getattr(model, method)(argument)
        assert cluster.calls[-1] == ("EditModel", {"model": "3", **change})
    model.promote(made, "production")
    assert cluster.calls[-1] == ("EditModel", {"model": "3", "set_aliases": {"production": 2}})
    for method, archived in (("archive", True), ("unarchive", False)):
        getattr(model, method)()
        assert cluster.calls[-1] == ("EditModel", {"model": "3", "archived": archived})
    model.delete()
    assert cluster.calls[-1] == ("DeleteModel", {"model": "3"})
    cluster.replies["GetModel"] = {**MODEL, "newest_version": "0"}
    assert client.get_model("digits").get_version() is None


def test_models_are_listed_with_their_labels(cluster):
    others = [{**MODEL, "id": "4", "name": "letters", "labels": ["text", "vision"], "description": "of the alphabet"}, MODEL]
    cluster.replies = {"ListModels": {"models": others, "total": "2"}}
    assert [each.name for each in client.get_models(ModelSortBy.NUM_VERSIONS, OrderBy.DESCENDING, name="t", description="alphabet")] == ["letters"]
    assert cluster.calls == [("ListModels", {"name": "t", "labels": [], "order": "-versions", "limit": 10_000})]
    assert client.get_model_labels() == ["vision", "text"]
