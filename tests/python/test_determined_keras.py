"""TFKerasTrial and DeterminedCallback in a process of a trial, with Keras 3 on PyTorch, and a head that is an object of the test."""

import json
import os
import pathlib
import pickle
import runpy
import shutil
import signal
import subprocess
import sys

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
if os.environ["KERAS_BACKEND"] == "torch":
    pytest.importorskip("torch")
keras = pytest.importorskip("keras", reason="Keras is not installed; scripts/setup_keras.sh installs it")
np = pytest.importorskip("numpy")
pytest.importorskip("yaml")

from volador.compat import determined as det  # noqa: E402
from volador.compat.determined import _launch, errors  # noqa: E402
from volador.compat.determined import keras as det_keras  # noqa: E402
from volador.compat.determined.core import _preempt, _train  # noqa: E402
from volador.compat.determined.keras import _data  # noqa: E402

TRIALS = pathlib.Path(__file__).parent / "determined_trials"
sys.path.insert(0, str(TRIALS))

from fake_head import FakeHead, join_trial, leave_cluster, metrics_of, write_info  # noqa: E402

CONFIG = {
    "name": "points",
    "entrypoint": "keras_def:PointsTrial",
    "searcher": {"name": "single", "metric": "val_loss", "smaller_is_better": True, "max_length": {"batches": 12}},
    "scheduling_unit": 4,
    "min_validation_period": {"batches": 0},
    "min_checkpoint_period": {"batches": 0},
    "perform_initial_validation": False,
    "checkpoint_policy": "best",
}
HPARAMS = {"learning_rate": 0.01, "global_batch_size": 16, "dense1": 8, "dropout": 0.25}  # An epoch is 6 batches.


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """Makes this process one of trial 7 of experiment 3, in a folder with the programs; returns a function that tells it its head."""
    for name in ("keras_def.py", "keras_fit.py"):
        shutil.copy(TRIALS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = signal.getsignal(signal.SIGTERM)

    def start(head, config=None, latest=None, steps=0):
        storage = {"type": "shared_fs", "host_path": str(tmp_path), "storage_path": "store"}
        write_info(tmp_path / "info", {**CONFIG, **(config or {})}, HPARAMS, latest, storage, steps, addresses=("10.0.0.1",), rank=0, slots=(0,))
        join_trial(monkeypatch, head, tmp_path / "info", ("keras_def", "keras_fit"))
        keras.utils.clear_session() if hasattr(keras.utils, "clear_session") else keras.backend.clear_session()
        return head

    yield start
    signal.signal(signal.SIGTERM, before)
    leave_cluster()
    _train.listener = None


def checkpoints_of(head):
    return [request["checkpoint"]["batches"] for request in head.of("ReportCheckpoint")]


def notes():
    return sys.modules["keras_def"].Note.notes


def test_a_class_trains_what_the_search_asks_and_its_checkpoint_loads(trial, tmp_path, capsys):
    head = trial(FakeHead([6, 12]), {"min_validation_period": {"epochs": 1}})
    assert _launch.main(["--trial"]) == 0
    training, validations = metrics_of(head, "training"), metrics_of(head, "validation")
    assert sorted(training) == [4, 6, 8, 12] and set(training[4]) == {"loss", "accuracy"}
    assert sorted(validations) == [6, 12] and set(validations[6]) == {"val_loss", "val_accuracy"}
    assert head.of("CompleteTrialOperation") == [{"length": steps, "metric": validations[steps]["val_loss"]} for steps in (6, 12)]
    assert [request["progress"] for request in head.of("ReportProgress")] == [6.0, 12.0]
    assert checkpoints_of(head)[-1] == 12
    checkpoint = head.of("ReportCheckpoint")[-1]["checkpoint"]
    assert {"determined-keras-model.weights.h5", "determined-keras-optimizer-weights.pkl", "determined-callbacks.v1.pkl", "rng_state.pkl",
            "trial_state.pkl", "load_data.json", "code/keras_def.py", "note", "metadata.json"} <= set(checkpoint["resources"])
    assert json.loads(checkpoint["metadata"])["format"] == "h5"
    assert notes()[:4] == [("epoch begin", 0), ("workload end", 4, ["accuracy", "loss"]), ("epoch end", 0), ("workload end", 6, ["accuracy", "loss"])]
    assert ("test end", ["val_accuracy", "val_loss"]) in notes()
    assert "batch 12  validation  val_accuracy " in capsys.readouterr().out
    # What the model computes is what was validated.
    folder = tmp_path / "store" / checkpoint["id"]
    model = det_keras.load_model_from_checkpoint_path(str(folder))
    x, y = sys.modules["keras_def"].points(2, 40)
    found = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(validations[12]["val_loss"], rel=1e-5)
    assert json.loads((folder / "load_data.json").read_text())["trial_type"] == "TFKerasTrial"


@pytest.mark.parametrize("name", ["PointsTrial", "SequenceTrial"])
def test_a_preempted_trial_goes_on_bit_for_bit(trial, name):
    config = {"entrypoint": f"keras_def:{name}", "min_validation_period": {"batches": 4}, "checkpoint_policy": "none"}
    whole = trial(FakeHead([16]), config)
    assert _launch.main(["--trial"]) == 0
    first = trial(FakeHead([16]), config)
    first.preempt_after = ("ReportMetrics", 4)  # The validation at 8, in the second epoch.
    first.wait_for_preemption(_preempt._requested)
    assert _launch.main(["--trial"]) == 0
    assert first.names()[-2:] == ["ReportCheckpoint", "AcknowledgePreemption"]
    saved = first.of("ReportCheckpoint")[0]["checkpoint"]
    assert saved["batches"] == 8
    second = trial(FakeHead([16]), config, latest=saved["id"], steps=8)
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(second, "training")) == [12, 16]
    assert {**metrics_of(first, "training"), **metrics_of(second, "training")} == metrics_of(whole, "training")
    assert {**metrics_of(first, "validation"), **metrics_of(second, "validation")} == metrics_of(whole, "validation")
    assert notes()[-1][0] == "test end" and ("workload end", 12, ["accuracy", "loss"]) in notes()


def test_callbacks_keep_their_state(trial, tmp_path):
    config = {"min_validation_period": {"batches": 4}}
    head = trial(FakeHead([12]), config)
    assert _launch.main(["--trial"]) == 0
    checkpoint = tmp_path / "store" / head.of("ReportCheckpoint")[-1]["checkpoint"]["id"]
    note, plateau, early = pickle.loads((checkpoint / "determined-callbacks.v1.pkl").read_bytes())
    assert (note, plateau["test_end_count"], early["test_end_count"]) == (3, 3, 3)
    # Each validation but the first is without an improvement by 10, and halves the rate.
    values = pickle.loads((checkpoint / "determined-keras-optimizer-weights.pkl").read_bytes())["optimizers"][0]
    assert any(np.ndim(value) == 0 and float(value) == pytest.approx(0.0025) for value in values)
    later = trial(FakeHead([16]), config, latest=checkpoint.name, steps=12)
    assert _launch.main(["--trial"]) == 0
    after = tmp_path / "store" / later.of("ReportCheckpoint")[-1]["checkpoint"]["id"]
    assert (after / "note").read_text() == "4"


def test_early_stopping_ends_the_trial(trial):
    head = trial(FakeHead([400]), {"entrypoint": "keras_def:ImpatientTrial", "min_validation_period": {"batches": 4}, "checkpoint_policy": "none"})
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(head, "validation")) == [4, 8]
    assert head.of("ReportTrialExit") == [{"reason": "user_requested_stop"}]
    assert checkpoints_of(head) == [8]


def test_weights_of_another_trial_begin_anew(trial, tmp_path):
    first = trial(FakeHead([6]))
    assert _launch.main(["--trial"]) == 0
    saved = first.of("ReportCheckpoint")[-1]["checkpoint"]["id"]
    counters = tmp_path / "store" / saved / "trial_state.pkl"
    counters.write_bytes(pickle.dumps({**pickle.loads(counters.read_bytes()), "trial_id": 4}))
    second = trial(FakeHead([4]), latest=saved)
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(second, "training")) == [4]
    assert metrics_of(second, "training")[4] != metrics_of(first, "training")[4]


def test_records_per_epoch_sets_epochs(trial):
    head = trial(FakeHead([2]), {"records_per_epoch": 80, "searcher": {**CONFIG["searcher"], "max_length": {"epochs": 2}}})
    assert _launch.main(["--trial"]) == 0
    assert sorted(metrics_of(head, "validation")) == [10]
    assert [each for each in notes() if each[0] == "epoch end"] == [("epoch end", 0), ("epoch end", 1)]


def test_mistakes_are_named(trial, capsys):
    trial(FakeHead([4]), {"entrypoint": "keras_def:UnwrappedTrial"})
    with pytest.raises(errors.InvalidExperimentException, match=r"UnwrappedTrial.build_model: it returned a model that was not wrapped"):
        _launch.main(["--trial"])
    trial(FakeHead([4]), {"entrypoint": "keras_def:Sequence"})
    assert _launch.main(["--trial"]) == 2
    assert "determined.keras.TFKerasTrial, got keras_def:Sequence" in capsys.readouterr().err


class Counting:
    """Eight batches, each its number."""

    ended = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.full((1,), 10 * self.ended + index)

    def on_epoch_end(self):
        self.ended += 1


FIT = {"workers": 1, "max_queue_size": 10}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", [None, 5])
def test_batches_are_shared_and_go_on_anywhere(workers, seed):
    def taken(rank, start, count):
        source = _data.adapt("build_training_data_loader", Counting(), 1, seed, {**FIT, "workers": workers}, rank, 2).endless(start)
        found = [int(next(source)[0]) for _ in range(count)]
        source.close()
        return found

    ranks = [taken(rank, 0, 12) for rank in range(2)]
    united = [each for pair in zip(*ranks) for each in pair]
    for epoch in range(3):
        assert sorted(united[8 * epoch : 8 * epoch + 8]) == [10 * epoch + index for index in range(8)]
    assert (united[:8] == list(range(8))) == (seed is None)
    assert [taken(rank, 5, 7) for rank in range(2)] == [each[5:] for each in ranks]


def test_arrays_keep_records_together_and_the_last_batch():
    x, y = {"a": np.arange(10.0), "b": np.arange(10) * 2}, np.arange(10) * 3
    batches = _data.adapt("build_training_data_loader", (x, y), 4, 3, FIT, 0, 1)
    assert batches.length == 3
    source = batches.endless(0)
    epoch = [next(source) for _ in range(3)]
    assert [len(target) for _, target in epoch] == [4, 4, 2]
    assert sorted(np.concatenate([target for _, target in epoch])) == list(y)
    for inputs, target in epoch:
        assert inputs["a"].dtype == np.float32 and np.array_equal(inputs["a"] * 3, target) and np.array_equal(inputs["b"] * 1.5, target)
    validation = _data.adapt("build_validation_data_loader", (x, y), 4, None, FIT, 0, 1)
    assert [list(target) for _, target in validation.once()] == [list(y[:4]), list(y[4:8]), list(y[8:])]
    with pytest.raises(errors.InvalidExperimentException, match=r"lengths \[2, 3\]"):
        _data.adapt("build_training_data_loader", (np.zeros(2), np.zeros(3)), 1, None, FIT, 0, 1)
    with pytest.raises(errors.InvalidDataTypeException, match="expected arrays"):
        _data.adapt("build_training_data_loader", 3, 1, None, FIT, 0, 1)


# fit() with DeterminedCallback.


def fit(**arguments):
    runpy.run_path("keras_fit.py")["main"](**arguments)


EPOCHS = {"searcher": {**CONFIG["searcher"], "metric": "loss", "max_length": {"epochs": 4}}}


def test_fit_reports_saves_and_completes(trial, tmp_path):
    head = trial(FakeHead([2, 4]), EPOCHS)
    fit(epochs=4)
    training, validations = metrics_of(head, "training"), metrics_of(head, "validation")
    assert sorted(training) == sorted(validations) == checkpoints_of(head) == [4, 8, 12, 16]
    assert (training[8]["epochs"], training[8]["batches"], set(training[8])) == (2, 8, {"epochs", "batches", "loss", "accuracy"})
    assert (validations[8]["epochs"], set(validations[8])) == (2, {"epochs", "batches", "loss", "accuracy"})
    assert head.of("CompleteTrialOperation") == [{"length": epochs, "metric": validations[4 * epochs]["loss"]} for epochs in (2, 4)]
    assert {"model_checkpoint.weights.h5", "callback_state", "code/keras_fit.py"} <= set(head.of("ReportCheckpoint")[-1]["checkpoint"]["resources"])


def test_fit_ends_with_the_search_and_names_the_metric_of_a_class(trial):
    head = trial(FakeHead([2]), {"searcher": {**EPOCHS["searcher"], "metric": "val_loss"}})
    fit(epochs=4)
    assert checkpoints_of(head) == [4, 8]
    assert metrics_of(head, "validation")[8]["val_loss"] == metrics_of(head, "validation")[8]["loss"]
    trial(FakeHead([9]), EPOCHS)
    with pytest.raises(RuntimeError, match=r"the search asks for 9 epochs, fit\(\) for 4; pass epochs=9"):
        fit(epochs=4)


def test_a_preempted_fit_goes_on_bit_for_bit(trial):
    whole = trial(FakeHead([4]), EPOCHS)
    fit()
    first = trial(FakeHead([4]), EPOCHS)
    first.preempt_after = ("ReportCheckpoint", 2)
    first.wait_for_preemption(_preempt._requested)
    fit()
    assert first.names()[-1] == "AcknowledgePreemption" and checkpoints_of(first) == [4, 8]
    second = trial(FakeHead([4]), EPOCHS, latest=first.of("ReportCheckpoint")[-1]["checkpoint"]["id"], steps=8)
    fit()
    for group in ("training", "validation"):
        assert sorted(metrics_of(second, group)) == [12, 16]
        assert {**metrics_of(first, group), **metrics_of(second, group)} == metrics_of(whole, group)


@pytest.mark.skipif(os.environ["KERAS_BACKEND"] != "torch", reason="processes share gradients by Horovod with TensorFlow, which is not installed")
def test_two_processes_train_the_same_model(tmp_path):
    store, program = tmp_path / "store", str(TRIALS / "keras_ranks.py")
    processes = [
        subprocess.Popen([sys.executable, program, str(store), str(rank)], stdout=subprocess.PIPE, text=True, cwd=TRIALS)
        for rank in range(2)
    ]
    texts = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts
    first, second = (json.loads(text.splitlines()[-1]) for text in texts)
    assert first["weights"] == second["weights"] and first["moved"] and second["moved"]
    assert first["mean"] == pytest.approx(first["plain"], rel=1e-5)


def test_names():
    assert det.keras is det_keras
    assert issubclass(det_keras.callbacks.EarlyStopping, (det_keras.callbacks.Callback, keras.callbacks.EarlyStopping))
