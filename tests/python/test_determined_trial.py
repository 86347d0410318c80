"""A process of a trial that a cluster runs: what it asks and tells the head, with a head that is an object of the test."""

import json
import os
import pathlib
import pickle
import queue
import runpy
import shutil
import signal
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")

import volador  # noqa: E402
from volador.compat import determined as det  # noqa: E402
from volador.compat.determined import _launch, _session, core, pytorch  # noqa: E402
from volador.compat.determined.core import _context, _events, _preempt, _train  # noqa: E402

TRIALS = pathlib.Path(__file__).parent / "determined_trials"
sys.path.insert(0, str(TRIALS))

from fake_head import FakeHead, join_trial, leave_cluster, metrics_of, write_info  # noqa: E402

CONFIG = {
    "name": "digits",
    "entrypoint": "model_def:MNistTrial",
    "data": {"records": 256},
    "searcher": {"name": "adaptive_asha", "metric": "validation_loss", "smaller_is_better": True, "max_length": {"batches": 16}},
    "scheduling_unit": 4,
    "min_validation_period": {"batches": 0},
    "min_checkpoint_period": {"batches": 0},
    "perform_initial_validation": False,
    "checkpoint_policy": "best",
}
HPARAMS = {"learning_rate": 1.0, "global_batch_size": 32, "n_filters1": 4, "n_filters2": 4, "dropout1": 0.1, "dropout2": 0.1}


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Makes this process one of trial 7 of experiment 3, in a folder with the tutorial's program; returns a function that tells it its head."""
    for name in ("model_def.py", "data.py", "core_loop.py"):
        shutil.copy(TRIALS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)

    def start(head, config=None, latest=None, hparams=HPARAMS, steps=0):
        write_info(tmp_path / "info", {**CONFIG, **(config or {})}, hparams, latest, {"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "store"}, steps)
        monkeypatch.setattr(_session, "_FIRST_PAUSE_S", 0.001)
        join_trial(monkeypatch, head, tmp_path / "info", ("model_def", "data"))
        return head

    yield start
    signal.signal(signal.SIGTERM, before)
    leave_cluster()
    _train.listener = None


OPERATION = ["GetTrialOperation"]
REPORT = ["ReportMetrics"]


def test_a_class_trains_what_the_search_asks_one_after_the_other(trial, tmp_path, capsys):
    head = trial(FakeHead([8, 16]))
    assert _launch.main(["--trial"]) == 0
    to_length = [*REPORT, *REPORT, "ReportProgress", "GetExperiment", *REPORT, "CompleteTrialOperation", "ReportCheckpoint"]
    assert head.names() == [*OPERATION, *to_length, *OPERATION, *to_length, *OPERATION]
    assert [request["progress"] for request in head.of("ReportProgress")] == [8.0, 16.0]
    assert sorted(metrics_of(head, "training")) == [4, 8, 12, 16]
    validations = metrics_of(head, "validation")
    completed = head.of("CompleteTrialOperation")
    assert completed == [{"length": steps, "metric": validations[steps]["validation_loss"]} for steps in (8, 16)]
    assert completed[1]["metric"] < completed[0]["metric"] < 2.4
    for reported in head.of("ReportCheckpoint"):
        checkpoint = reported["checkpoint"]
        folder = tmp_path / "store" / checkpoint["id"]
        files = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        assert checkpoint["resources"] == {**files, "code/": 0} and "state_dict.pth" in files and files["code/model_def.py"] > 0
        metadata = json.loads(checkpoint["metadata"])
        assert (checkpoint["batches"], metadata["format"]) == (metadata["steps_completed"], "pickle")
    assert "batch 8  validation  validation_loss " in capsys.readouterr().out


def test_a_checkpoint_is_kept_for_the_best_validation_of_the_experiment(trial):
    periods = {"min_validation_period": {"batches": 4}, "checkpoint_policy": "best"}
    head = trial(FakeHead([8], best=0.0), periods)
    assert _launch.main(["--trial"]) == 0
    assert [request["checkpoint"]["batches"] for request in head.of("ReportCheckpoint")] == [8]  # The last, for the length.
    head = trial(FakeHead([8], best=100.0), {**periods, "perform_initial_validation": True})
    assert _launch.main(["--trial"]) == 0
    assert [request["checkpoint"]["batches"] for request in head.of("ReportCheckpoint")][:1] == [4]
    assert sorted(metrics_of(head, "validation")) == [0, 4, 8]


def test_a_preempted_trial_goes_on_bit_for_bit(trial):
    whole = trial(FakeHead([16]))
    assert _launch.main(["--trial"]) == 0
    first = trial(FakeHead([16]))
    first.preempt_after = ("ReportMetrics", 1)
    first.wait_for_preemption(_preempt._requested)
    assert _launch.main(["--trial"]) == 0
    assert first.names() == [*OPERATION, *REPORT, "ReportCheckpoint", "AcknowledgePreemption"]
    saved = first.of("ReportCheckpoint")[0]["checkpoint"]
    assert saved["batches"] == 4
    second = trial(FakeHead([16]), latest=saved["id"], steps=4)
    assert _launch.main(["--trial"]) == 0
    assert {**metrics_of(first, "training"), **metrics_of(second, "training")} == metrics_of(whole, "training")
    assert metrics_of(second, "validation") == metrics_of(whole, "validation")
    assert sorted(metrics_of(second, "training")) == [8, 12, 16]


@pytest.mark.parametrize(("steps", "trained"), [(8, [12]), (0, [4, 8, 12])])
def test_a_trial_continues_another_one_or_takes_its_weights(trial, steps, trained, tmp_path):
    first = trial(FakeHead([8]))
    assert _launch.main(["--trial"]) == 0
    saved = first.of("ReportCheckpoint")[0]["checkpoint"]["id"]
    counters = tmp_path / "store" / saved / "trial_state.pkl"
    counters.write_bytes(pickle.dumps({**pickle.loads(counters.read_bytes()), "trial_id": 4}))
    second = trial(FakeHead([12]), latest=saved, steps=steps)
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(second, "training")) == trained


def test_a_trial_that_waits_for_the_search_leaves_when_it_should(trial):
    head = trial(FakeHead([4]))
    head.preempt_after = ("ReportCheckpoint", 1)
    head.wait_for_preemption(_preempt._requested)
    assert _launch.main(["--trial"]) == 0
    assert head.names()[-2:] == ["ReportCheckpoint", "AcknowledgePreemption"]


def test_a_profiled_trial_reports_where_the_time_of_its_batches_goes(trial, capsys):
    head = trial(FakeHead([16]), {"profiling": {"enabled": True, "begin_on_batch": 5, "end_after_batch": 9, "sync_timings": False}})
    assert _launch.main(["--trial"]) == 0
    timings = metrics_of(head, "timing")
    assert sorted(timings) == [8, 12]  # Batches 5 to 7, then 8 and 9; those before and behind are not measured.
    assert "reduce_metrics" in timings[8]
    for times in timings.values():
        assert {"dataloader_next", "to_device", "train_batch", "samples_per_second"} <= set(times)
        assert all(value > 0 for value in times.values())
        parts = sum(value for name, value in times.items() if name != "samples_per_second")
        assert times["samples_per_second"] == pytest.approx(32 / parts)
    capsys.readouterr()
    head = trial(FakeHead([16]), {"profiling": {"enabled": False}})
    assert _launch.main(["--trial"]) == 0
    assert metrics_of(head, "timing") == {}


def test_a_script_without_a_length_in_the_configuration_decides_itself(trial, tmp_path, monkeypatch):
    head = trial(FakeHead([1]), {"searcher": {"name": "adaptive_asha", "metric": "validation_loss", "time_metric": "epochs", "max_time": 3}, "min_validation_period": None})
    with pytorch.init(hparams=HPARAMS) as context:
        _launch._alias.install()
        from model_def import MNistTrial

        pytorch.Trainer(MNistTrial(context), context).fit(max_length=pytorch.Batch(6), validation_period=pytorch.Batch(4), reporting_period=pytorch.Batch(4))
    assert {steps: metrics["epochs"] for steps, metrics in metrics_of(head, "validation").items()} == {4: 0.5, 6: 0.75}
    assert "GetTrialOperation" not in head.names() and "CompleteTrialOperation" not in head.names()
    trial(FakeHead([]), {"searcher": {"name": "single", "metric": "validation_loss"}})
    with pytorch.init(hparams=HPARAMS) as context, pytest.raises(ValueError, match="max_length is missing, and searcher.max_length of the configuration too"):
        pytorch.Trainer(MNistTrial(context), context).fit()


def test_a_head_that_is_away_fails_nothing(trial, monkeypatch):
    head = trial(FakeHead([8], away=4))
    failures = iter([volador.exceptions.UnavailableError("starting"), None])

    def connect(address, token):
        failure = next(failures)
        if failure is not None:
            raise failure
        return head

    monkeypatch.setattr(_session, "_connect", connect)
    assert _launch.main(["--trial"]) == 0
    assert head.away == 0 and head.names()[-3:] == ["CompleteTrialOperation", "ReportCheckpoint", "GetTrialOperation"]


def test_a_run_that_is_not_the_newest_ends(trial, capsys):
    head = trial(FakeHead([8]))
    head.superseded = True
    with pytest.raises(SystemExit) as ended:
        _launch.main(["--trial"])
    assert ended.value.code == 1 and head.calls == []
    assert "the trial's run has ended: run 2 of trial 7 is not the newest one" in capsys.readouterr().err


def test_invalid_hyperparameters_and_stop_requests_are_reported(trial, tmp_path):
    with open(tmp_path / "model_def.py", "a") as file:
        file.write(
            """

class Invalid(MNistTrial):
    def __init__(self, context):
        raise det.InvalidHP("too many filters")

class Diverging(MNistTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 5:
            raise det.InvalidHP("it diverges")
        return super().train_batch(batch, epoch_idx, batch_idx)

class Content(MNistTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 1:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)
"""
        )
    for name, calls in (("Invalid", []), ("Diverging", [*OPERATION, *REPORT, "ReportCheckpoint"])):
        head = trial(FakeHead([8]))
        with pytest.raises(SystemExit) as ended:
            _launch.main(["--trial", f"model_def:{name}"])
        assert ended.value.code == 0
        assert head.names() == [*calls, "ReportTrialExit"] and head.of("ReportTrialExit") == [{"reason": "invalid_hp"}]
    head = trial(FakeHead([8]), {"entrypoint": "model_def:Content"})
    assert _launch.main(["--trial"]) == 0
    assert head.names() == [*OPERATION, *REPORT, "ReportCheckpoint", "ReportTrialExit"]
    assert head.of("ReportTrialExit") == [{"reason": "user_requested_stop"}]


def test_a_wrong_entrypoint_is_an_error(trial, capsys):
    trial(FakeHead([8]), {"entrypoint": "model_def:NoTrial"})
    assert _launch.main(["--trial"]) == 2
    assert "error: the experiment's configuration: entrypoint: there is no NoTrial in model_def" in capsys.readouterr().err


def test_trial_needs_a_cluster(capsys, monkeypatch):
    monkeypatch.delenv("VOLADOR_TRIAL", raising=False)
    assert _launch.main(["--trial"]) == 2
    assert "this process is not a trial of a cluster" in capsys.readouterr().err


# Programs with the Core API.


def run_loop(monkeypatch, tmp_path):
    _launch._alias.install()
    monkeypatch.setattr(sys, "argv", ["core_loop.py", "0"])
    runpy.run_path(str(tmp_path / "core_loop.py"), run_name="__main__")


def test_a_core_api_program_is_a_trial(trial, tmp_path, monkeypatch):
    head = trial(FakeHead([10, 25]), hparams={"increment_by": 1})
    run_loop(monkeypatch, tmp_path)
    ten = [*REPORT, "ReportProgress", "ReportCheckpoint"]
    end = [*REPORT, "CompleteTrialOperation", *OPERATION]
    assert head.names() == [*OPERATION, *ten, *end, *ten, *end]
    assert head.of("CompleteTrialOperation") == [{"length": 10, "metric": 10.0}, {"length": 25, "metric": 25.0}]
    last = head.of("ReportCheckpoint")[-1]["checkpoint"]
    assert last["batches"] == 20 and sorted(last["resources"]) == ["metadata.json", "state"]
    # SIGTERM: of the queue.
    head = trial(FakeHead([50]), latest=last["id"], hparams={"increment_by": 1})
    head.sigterm_after = ("ReportMetrics", 1)
    run_loop(monkeypatch, tmp_path)
    assert head.names() == [*OPERATION, *ten, "AcknowledgePreemption"] and head.of("ReportCheckpoint")[0]["checkpoint"]["batches"] == 30


def test_reports_of_the_core_api(trial):
    head = trial(FakeHead([10], best=0.25))
    with core.init() as context:
        assert context.searcher.get_configured_units() is core.Unit.BATCHES
        assert context.train.get_experiment_best_validation() == 0.25
        context.train.report_progress(0.5)
        context.train.report_metrics("inference", 3, {"rate": float("nan"), "name": "x"})
        context.train.report_early_exit(core.EarlyExitReason.USER_REQUESTED_STOP)
        for operation in context.searcher.operations():
            with pytest.raises(TypeError, match="the searcher's metric as one number"):
                operation.report_completed({"a": 1})
            operation.report_completed(1)
        context.checkpoint.delete("0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e")
        context.preempt.acknowledge_preemption_signal()
        context.preempt.acknowledge_preemption_signal()
    assert head.of("ReportProgress") == [{"progress": 8.0}]
    assert head.of("ReportMetrics") == [{"group": "inference", "batches": 3, "metrics": '{"rate": "NaN", "name": "x"}'}]
    assert head.of("ReportTrialExit") == [{"reason": "user_requested_stop"}]
    assert head.of("DeleteCheckpoints")[0]["ids"] == ["0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e"]
    assert head.names().count("AcknowledgePreemption") == 1


def test_progress_is_left_out_while_the_head_is_away(trial):
    head = trial(FakeHead([10]))
    with core.init() as context:
        for operation in context.searcher.operations():
            head.away = 1
            operation.report_progress(5)
            operation.report_progress(6)
            operation.report_completed(1.0)
    assert head.of("ReportProgress") == [{"progress": 6.0}]


def test_checkpoints_pass_through_this_machine_to_an_object_store(trial, tmp_path, monkeypatch):
    store = volador.storage.open(str(tmp_path / "bucket"))
    head = trial(FakeHead([]))
    monkeypatch.setattr(_context, "object_store_of", lambda settings: store)
    monkeypatch.setattr(_context, "storage_of", lambda settings: None)
    with core.init() as context:
        with context.checkpoint.store_path({"steps_completed": 4}) as (path, uuid):
            (path / "weights").write_text("w")
        assert head.of("ReportCheckpoint")[0]["checkpoint"]["resources"].keys() == {"weights", "metadata.json"}
        assert not path.exists() and store.exists(uuid)
        with context.checkpoint.restore_path(uuid) as read:
            assert (read / "weights").read_text() == "w" and str(read).startswith(str(tmp_path / "info"))
        assert not read.exists()
        (context.train.get_tensorboard_path() / "events").write_text("e")
    assert store.exists("tensorboard/experiment/3/trial/7")


class TellingStore:
    """A storage that tells of each upload."""

    def __init__(self, store):
        self.store, self.uploads = store, queue.Queue()

    def __getattr__(self, name):
        return getattr(self.store, name)

    def upload(self, folder, key):
        self.uploads.put([file.path for file in self.store.upload(folder, key)])


def test_event_files_are_stored_while_the_trial_runs(tmp_path):
    store = TellingStore(volador.storage.open(str(tmp_path / "bucket")))
    folder = tmp_path / "events"
    folder.mkdir()
    events = _events.EventFiles(store, "trial/7", folder)
    events.start(every_s=0.01)
    (folder / "plugins").mkdir()
    (folder / "first").write_text("1")
    while store.uploads.get(timeout=30) != ["first"]:
        pass
    with (folder / "first").open("a") as file:
        file.write("2")
    (folder / "plugins" / "profile").write_text("p")
    while store.uploads.get(timeout=30) != ["first", "plugins/profile"]:
        pass
    events.stop()
    events.upload()
    while not store.uploads.empty():
        store.uploads.get()
    events.upload()
    assert store.uploads.empty(), "nothing has changed"
    store.download("trial/7", tmp_path / "back")
    assert (tmp_path / "back" / "first").read_text() == "12"


def test_event_files_of_earlier_runs_stay_stored(tmp_path):
    store = TellingStore(volador.storage.open(str(tmp_path / "bucket")))
    for run in ("one", "two"):
        folder = tmp_path / run  # On another node.
        folder.mkdir()
        events = _events.EventFiles(store, "trial/7", folder)
        events.upload()
        (folder / run).write_text(run)
        events.upload()
    assert [file.path for file in store.describe("trial/7")] == ["one", "two"]
    (folder / "three").symlink_to("two")
    (folder / "two").write_text("new")
    events.upload()
    assert [file.path for file in store.describe("trial/7")] == ["one", "two"], "without links, which no storage has"


def test_what_a_program_sees_of_its_task(trial, tmp_path, monkeypatch):
    for files in (True, False):
        trial(FakeHead([]), latest="0b5f", steps=12)
        if not files:
            for name in ("cluster.json", "trial.json"):
                (tmp_path / "info" / name).unlink()
        info = det.get_cluster_info()
        assert (info.task_type, info.task_id, info.allocation_id, info.agent_id) == ("TRIAL", "3.abc", "3.abc.2", "node-1")
        assert (info.master_url, info.cluster_id, info.session_token, info.slot_ids) == ("https://head:1", "c1", "secret", [0, 1])
        assert (info.container_addrs, info.container_rank, info.container_slot_counts) == (["10.0.0.1", "10.0.0.2"], 1, [2, 2])
        assert (info.gpu_uuids, info.latest_checkpoint, info.user_data) == (["GPU-1"], "0b5f", {"records": 256})
        seen = info.trial
        assert (seen.trial_id, seen.experiment_id, seen.trial_seed, seen.hparams) == (7, 3, 11, HPARAMS)
        assert (seen._steps_completed, seen._trial_run_id, seen._debug, seen._inter_node_network_interface) == (12, 2, False, None)
        assert seen._config["name"] == "digits"


# Two processes.


def test_only_the_chief_of_two_processes_talks_to_the_head(trial, tmp_path):
    trial(FakeHead([]))
    command = [sys.executable, str(TRIALS / "cluster_ranks.py"), str(tmp_path / "meet")]
    started = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}) for rank in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    chief, worker = (json.loads(output.splitlines()[-1]) for output in outputs)
    to_length = [*REPORT, *REPORT, "ReportProgress", "GetExperiment", *REPORT, "CompleteTrialOperation", "ReportCheckpoint"]
    assert chief["class"] == [*OPERATION, *to_length, *OPERATION] and worker["class"] == []
    assert chief["preempted"] == [*OPERATION, *REPORT, "ReportCheckpoint", "AcknowledgePreemption"] and worker["preempted"] == []
    assert chief["core"] == [*OPERATION, "ReportCheckpoint", "CompleteTrialOperation", *OPERATION] and worker["core"] == []
    assert chief["files"] == ["metadata.json", "shard0", "shard1"] and chief["polls"] > 0 and worker["polls"] == 0
