"""Trials and programs in the shape of Determined's documentation, and plain PyTorch loops to compare them with."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
yaml = pytest.importorskip("yaml")

from volador.compat import determined as det  # noqa: E402
from volador.compat.determined import _info, core, pytorch, util  # noqa: E402
from volador.compat.determined.core import _preempt, _train  # noqa: E402
from volador.compat.determined.pytorch import _checkpoint, _metrics, samplers  # noqa: E402

pytestmark = pytest.mark.usefixtures("determined_alone")

TRIALS = pathlib.Path(__file__).parent / "determined_trials"
RECORDS, SIZE, SEED = 22, 4, 5  # Six batches an epoch, the last of two records.
PER_EPOCH = 6


def records():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(RECORDS, 6, generator=generator), torch.randn(RECORDS, 1, generator=generator)


def build(dropout=0.0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1))


def order_of(epochs):
    """Batches of record numbers, as a shuffled loader gives them."""
    rng, order = np.random.RandomState(SEED), []
    for _ in range(epochs):
        epoch = list(range(RECORDS))
        rng.shuffle(epoch)
        order += [epoch[start : start + SIZE] for start in range(0, RECORDS, SIZE)]
    return order


class Numbered(torch.utils.data.Dataset):
    """Records with their numbers."""

    def __init__(self, count=RECORDS):
        self.x, self.y = records()
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.x[index], self.y[index], index


class Trial(pytorch.PyTorchTrial):
    """Regression. Subclasses change one thing."""

    dropout = 0.0

    def __init__(self, context):
        self.context = context
        self.seen = []
        self.before_models()
        self.model = context.wrap_model(build(self.dropout))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9))

    def before_models(self):
        pass

    def build_training_data_loader(self):
        return pytorch.DataLoader(Numbered(), batch_size=SIZE, shuffle=True)

    def build_validation_data_loader(self):
        return pytorch.DataLoader(Numbered(8), batch_size=SIZE)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y, numbers = batch
        self.seen.append((epoch_idx, batch_idx, numbers.tolist()))
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.step()
        return {"loss": loss}

    def step(self):
        self.context.step_optimizer(self.optimizer)

    def evaluate_batch(self, batch):
        return {"error": torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])}


@pytest.fixture
def told():
    """What the trainer reported: (kind, steps, values)."""
    reports = []
    _train.listener = lambda kind, steps, values: reports.append((kind, steps, values))
    yield reports
    _train.listener = None


def fit(trial_class, max_length=None, aggregation=1, hparams=None, callbacks=None, seed=SEED, **options):
    torch.manual_seed(seed)
    with pytorch.init(hparams=hparams, aggregation_frequency=aggregation) as context:
        trial = trial_class(context)
        if callbacks is not None:
            trial.build_callbacks = lambda: callbacks
        pytorch.Trainer(trial, context).fit(max_length=max_length, **options)
    return trial


def plain(batches, aggregation=1, average=True, clip=None, optimizer_of=None):
    """The same training without the façade."""
    x, y = records()
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for index, chosen in enumerate(order_of(9)[:batches]):
        loss = torch.nn.functional.mse_loss(model(x[chosen]), y[chosen])
        loss.backward()
        losses.append(loss.item())
        if (index + 1) % aggregation == 0:
            if average:
                for parameter in model.parameters():
                    parameter.grad /= aggregation
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
    return model, losses


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))


# The loop.


def test_losses_and_weights_are_those_of_a_plain_loop(told):
    trial = fit(Trial, pytorch.Batch(20), reporting_period=pytorch.Batch(1))
    model, losses = plain(20)
    assert [values["loss"] for kind, _, values in told if kind == "training"] == losses
    assert same_weights(trial.model, model)
    assert [numbers for _, _, numbers in trial.seen] == order_of(4)[:20]
    assert [(epoch, batch) for epoch, batch, _ in trial.seen] == [(batch // PER_EPOCH, batch) for batch in range(20)]
    x, y = records()
    with torch.no_grad():
        errors = [torch.nn.functional.mse_loss(model(x[start : start + 4]), y[start : start + 4]).item() for start in (0, 4)]
    kind, steps, values = told[-2]
    assert (kind, steps, told[-1][0]) == ("validation", 20, "checkpoint")
    assert float(values["error"]) == pytest.approx(np.mean(np.array(errors, dtype=np.float32)), rel=1e-6)


def test_a_report_has_the_mean_of_its_batches(told):
    fit(Trial, pytorch.Batch(7), reporting_period=pytorch.Batch(5))
    _, losses = plain(7)
    reports = [(steps, values["loss"]) for kind, steps, values in told if kind == "training"]
    assert reports == [(5, np.mean(np.array(losses[:5], dtype=np.float32)).item()), (7, np.mean(np.array(losses[5:], dtype=np.float32)).item())]


def test_a_restart_within_an_epoch_goes_on_bit_for_bit(told):
    class Dropping(Trial):
        dropout = 0.5

    options = {"validation_period": pytorch.Batch(8), "reporting_period": pytorch.Batch(4)}
    whole = fit(Dropping, pytorch.Batch(16), **options)
    first = fit(Dropping, pytorch.Batch(8), **options)
    uuid = [values["uuid"] for kind, steps, values in told if kind == "checkpoint" and steps == 8][-1]
    np.random.seed(1)
    # Another seed, as in a new process: nothing may depend on it.
    second = fit(type("Other", (Dropping,), {}), pytorch.Batch(16), latest_checkpoint=uuid, seed=99, **options)
    assert first.seen + second.seen == whole.seen
    assert same_weights(second.model, whole.model) and not same_weights(first.model, whole.model)
    assert second.context.get_initial_batch() == 8
    assert second.optimizer.state_dict()["state"][0]["momentum_buffer"].equal(whole.optimizer.state_dict()["state"][0]["momentum_buffer"])


def test_a_finished_trial_is_validated_and_not_trained_again(told):
    fit(Trial, pytorch.Batch(6))
    uuid = told[-1][2]["uuid"]
    del told[:]
    assert fit(Trial, pytorch.Batch(6), latest_checkpoint=uuid).seen == []
    assert [kind for kind, _, _ in told] == ["validation"]


def test_epochs_as_length_and_schedules_as_periods(told):
    trial = fit(Trial, pytorch.Epoch(2), validation_period=pytorch.Batch([2, 3]), checkpoint_period=pytorch.Epoch(1), checkpoint_policy="none")
    assert len(trial.seen) == 2 * PER_EPOCH
    reports = [(kind, steps) for kind, steps, _ in told if kind != "training"]
    assert reports == [("validation", 2), ("validation", 3), ("checkpoint", 6), ("checkpoint", 12), ("validation", 12)]


def test_what_ends_together_is_reported_then_validated_then_saved(told):
    fit(Trial, pytorch.Batch(8), validation_period=pytorch.Batch(4), checkpoint_period=pytorch.Batch(4), checkpoint_policy="none")
    assert [(kind, steps) for kind, steps, _ in told] == [(kind, steps) for steps in (4, 8) for kind in ("training", "validation", "checkpoint")]


def test_models_are_evaluated_in_their_mode_and_without_gradients():
    modes = []

    class Watching(Trial):
        def train_batch(self, batch, epoch_idx, batch_idx):
            modes.append(("train", self.model.training, torch.is_grad_enabled()))
            return super().train_batch(batch, epoch_idx, batch_idx)

        def evaluate_batch(self, batch):
            modes.append(("evaluate", self.model.training, torch.is_grad_enabled()))
            return super().evaluate_batch(batch)

    fit(Watching, pytorch.Batch(2), validation_period=pytorch.Batch(1), step_zero_validation=True)
    evaluated, trained = [("evaluate", False, False)] * 2, [("train", True, True)]
    assert modes == evaluated + trained + evaluated + trained + evaluated


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_take_turns_and_skip_what_was_trained(rank):
    loader = pytorch.DataLoader(Numbered(), batch_size=SIZE, shuffle=True)
    for skip in (0, 4):
        batches = iter(loader.get_data_loader(repeat=True, skip=skip, num_replicas=2, rank=rank, seed=SEED))
        given = [next(batches)[2].tolist() for _ in range(7)]
        assert given == order_of(6)[rank::2][skip : skip + 7]
    assert len(loader) == PER_EPOCH and len(loader.get_data_loader(num_replicas=2, rank=rank)) == 3
    assert [len(list(loader.get_data_loader(num_replicas=4, rank=each))) for each in range(4)] == [2, 2, 1, 1]


def test_samplers():
    base = torch.utils.data.SequentialSampler(range(5))
    listed = samplers.ReproducibleShuffleSampler([0, 1, 2, 3, 4], 7)
    fast = samplers.ReproducibleShuffleSampler(base, 7)
    assert list(listed) == list(fast) != list(range(5))
    assert list(samplers.SkipSampler(base, 3)) == [3, 4] and len(samplers.SkipBatchSampler(base, 3)) == 5
    assert list(samplers.DistributedSampler(base, 2, 1)) == [1, 3]
    assert [each for each, _ in zip(samplers.RepeatSampler(base), range(7))] == [0, 1, 2, 3, 4, 0, 1]
    with pytest.raises(ValueError, match="rank: expected 0 to 1, got 2"):
        samplers.DistributedBatchSampler(base, 2, 2)


def test_loaders_refuse_what_cannot_be_continued():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([1])

    with pytest.raises(ValueError, match="IterableDataset"):
        pytorch.DataLoader(Stream())
    with pytest.raises(ValueError, match="exclude"):
        pytorch.DataLoader(range(3), shuffle=True, sampler=[0, 1])

    class Raw(Trial):
        def build_training_data_loader(self):
            return torch.utils.data.DataLoader(Numbered(), batch_size=SIZE)

    with pytest.raises(RuntimeError, match="build_training_data_loader: expected a pytorch.DataLoader"):
        fit(Raw, pytorch.Batch(1))

    class Allowed(Raw):
        def before_models(self):
            self.context.experimental.disable_dataset_reproducibility_checks()

    assert len(fit(Allowed, pytorch.Batch(8)).seen) == 8  # More than a pass: the loader begins again.


# Callbacks.


class Recorder(pytorch.PyTorchCallback):
    def __init__(self, events):
        self.events = events

    def state_dict(self):
        return {"events": len(self.events)}

    def load_state_dict(self, state_dict):
        self.events.append(f"load_state_dict {sorted(state_dict)}")


def _record(name, shown):
    def method(self, *args, **kwargs):
        self.events.append(" ".join([name, *shown(*args, **kwargs)]))

    method.__name__ = name
    setattr(Recorder, name, method)


_record("on_trial_startup", lambda first_batch_idx, checkpoint_uuid: [str(first_batch_idx), "new" if checkpoint_uuid is None else "restored"])
_record("on_training_epoch_start", lambda epoch_idx: [str(epoch_idx)])
_record("on_training_epoch_end", lambda epoch_idx: [str(epoch_idx)])
_record("on_training_workload_end", lambda avg_metrics, batch_metrics: [",".join(avg_metrics), str(len(batch_metrics))])
_record("on_validation_epoch_end", lambda outputs: [str(len(outputs))])
_record("on_validation_end", lambda metrics: [",".join(metrics)])
_record("on_checkpoint_load_start", lambda checkpoint: ["models_state_dict" if "models_state_dict" in checkpoint else "?"])
_record("on_checkpoint_save_start", lambda checkpoint: ["models_state_dict" if "models_state_dict" in checkpoint else "?"])
_record("on_checkpoint_write_end", lambda checkpoint_dir: ["written" if os.path.exists(os.path.join(checkpoint_dir, "state_dict.pth")) else "?"])
_record("on_checkpoint_upload_end", lambda uuid: ["uuid" if len(uuid) == 36 else "?"])
for _name in ("on_trial_shutdown", "on_training_start", "on_validation_start", "on_validation_epoch_start"):
    _record(_name, lambda: [])

VALIDATION = ["on_validation_start", "on_validation_epoch_start", "on_validation_epoch_end 2", "on_validation_end error"]
CHECKPOINT = ["on_checkpoint_save_start models_state_dict", "on_checkpoint_write_end written", "on_checkpoint_upload_end uuid"]


def test_callbacks_are_called_in_order(told):
    events = []
    fit(Trial, pytorch.Batch(7), callbacks={"recorder": Recorder(events)}, validation_period=pytorch.Epoch(1), reporting_period=pytorch.Batch(4))
    assert events == [
        "on_trial_startup 0 new",
        "on_training_start",
        "on_training_epoch_start 0",
        "on_training_workload_end loss 4",
        "on_training_epoch_end 0",
        "on_training_workload_end loss 2",
        *VALIDATION,
        *CHECKPOINT,
        "on_training_epoch_start 1",
        "on_training_workload_end loss 1",
        *VALIDATION,
        *CHECKPOINT,
        "on_trial_shutdown",
    ]
    del events[:]
    fit(Trial, pytorch.Batch(8), callbacks={"recorder": Recorder(events)}, latest_checkpoint=told[-1][2]["uuid"])
    assert events == [
        "on_trial_startup 7 restored",
        "on_checkpoint_load_start models_state_dict",
        "load_state_dict ['events']",
        "on_training_start",
        "on_training_workload_end loss 1",
        *VALIDATION,
        *CHECKPOINT,
        "on_trial_shutdown",
    ]


def test_an_epoch_callback_without_parameter_and_shutdown_after_an_error():
    events = []

    class Old(pytorch.PyTorchCallback):
        def on_training_epoch_start(self):
            events.append("start")

        def on_training_epoch_end(self, epoch_idx):
            raise KeyError("mine")

        def on_trial_shutdown(self):
            events.append("shutdown")

    with pytest.raises(KeyError):
        fit(Trial, pytorch.Batch(9), callbacks={"old": Old()})
    assert events == ["start", "shutdown"]


# Optimizers and schedules.

Mode = pytorch.LRScheduler.StepMode


@pytest.mark.parametrize(
    ("mode", "frequency", "aggregation", "steps"),
    [
        (Mode.STEP_EVERY_BATCH, 1, 1, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (Mode.STEP_EVERY_BATCH, 3, 1, [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4]),
        (Mode.STEP_EVERY_BATCH, 1, 4, [0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12]),
        (Mode.STEP_EVERY_OPTIMIZER_STEP, 1, 4, [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3]),
        (Mode.STEP_EVERY_EPOCH, 1, 1, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2]),
        (Mode.STEP_EVERY_EPOCH, 2, 1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]),
        (Mode.STEP_EVERY_EPOCH, 1, 4, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]),
        (Mode.MANUAL_STEP, 1, 1, [0] * 13),
    ],
)
def test_schedules_step_by_their_mode(mode, frequency, aggregation, steps):
    counts = []

    class Scheduled(Trial):
        def __init__(self, context):
            super().__init__(context)
            made = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))
            self.scheduler = context.wrap_lr_scheduler(made, mode, frequency)
            assert self.scheduler is made

        def train_batch(self, batch, epoch_idx, batch_idx):
            if batch_idx:
                counts.append(self.scheduler.last_epoch)
            return super().train_batch(batch, epoch_idx, batch_idx)

    trial = fit(Scheduled, pytorch.Batch(13), aggregation)
    assert [*counts, trial.scheduler.last_epoch] == steps


def test_a_plateau_schedule_is_manual():
    class Plateau(Trial):
        def __init__(self, context):
            super().__init__(context)
            context.wrap_lr_scheduler(torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer), Mode.STEP_EVERY_EPOCH)

    with pytest.raises(det.errors.InvalidExperimentException, match="ReduceLROnPlateau needs a metric"):
        fit(Plateau, pytorch.Batch(1))
    with pytest.raises(ValueError, match="frequency: expected an integer of at least 1, got 0"):
        pytorch.LRScheduler(None, Mode.MANUAL_STEP, 0)


@pytest.mark.parametrize(("aggregation", "average", "clip"), [(3, True, None), (3, False, None), (1, True, 0.1), (3, True, 0.1)])
def test_gradients_are_aggregated_and_clipped(aggregation, average, clip):
    class Aggregating(Trial):
        def __init__(self, context):
            self.context = context
            self.seen = []
            self.model = context.wrap_model(build())
            made = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
            self.optimizer = context.wrap_optimizer(made, backward_passes_per_step=1, average_aggregated_gradients=average)

        def step(self):
            self.context.step_optimizer(self.optimizer, clip_grads=clip and (lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, clip)))

    assert same_weights(fit(Aggregating, pytorch.Batch(12), aggregation).model, plain(12, aggregation, average, clip)[0])


def test_gradients_stay_without_auto_zero_grads():
    class Kept(Trial):
        def step(self):
            self.context.step_optimizer(self.optimizer, auto_zero_grads=False)

    assert fit(Kept, pytorch.Batch(1)).model[0].weight.grad is not None
    with pytest.raises(det.errors.InvalidExperimentException, match="auto_zero_grads=False with aggregation_frequency 2"):
        fit(Kept, pytorch.Batch(1), 2)


def test_a_scaler_changes_nothing_but_is_kept(told):
    class Scaled(Trial):
        def before_models(self):
            self.scaler = self.context.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=1024.0))

        def train_batch(self, batch, epoch_idx, batch_idx):
            loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
            self.context.backward(self.scaler.scale(loss))
            self.context.step_optimizer(self.optimizer, scaler=self.scaler)
            self.scaler.update()
            return loss

    trial = fit(Scaled, pytorch.Batch(5))
    assert same_weights(trial.model, plain(5)[0])
    assert told[0][2].keys() == {"loss"}  # A tensor alone is the loss.
    state = torch.load(pathlib.Path(told[-1][2]["path"]) / "state_dict.pth", weights_only=False)
    assert state["scaler_state_dict"]["scale"] == 1024.0

    class Automatic(Trial):
        def before_models(self):
            self.context.experimental.use_amp()

    assert same_weights(fit(Automatic, pytorch.Batch(5)).model, plain(5)[0])
    with pytest.raises(det.errors.InvalidExperimentException, match="Apex is not supported"):
        trial.context.configure_apex_amp([], [])


@pytest.mark.parametrize("by_trial", [True, False])
def test_a_stop_request_ends_at_the_next_report_with_a_checkpoint(told, by_trial):
    class Stopping(Trial):
        def step(self):
            super().step()
            if self.context.current_train_batch() == 2:
                self.context.set_stop_requested(True) if by_trial else _preempt.request_preemption()

    trial = fit(Stopping, pytorch.Batch(50), reporting_period=pytorch.Batch(5))
    assert len(trial.seen) == 5 and trial.context.get_stop_requested() is by_trial
    assert [(kind, steps) for kind, steps, _ in told] == [("training", 5), ("checkpoint", 5)]


# Metrics.


def test_validation_reducers(told):
    class Reduced(Trial):
        def evaluate_batch(self, batch, batch_idx):
            return {name: float(batch_idx + 1) for name in ("avg", "sum", "max", "min", "own")}

        def evaluation_reducer(self):
            kinds = {"avg": pytorch.Reducer.AVG, "sum": pytorch.Reducer.SUM, "max": pytorch.Reducer.MAX, "min": pytorch.Reducer.MIN}
            return {**kinds, "own": lambda values: len(values)}

    fit(Reduced, pytorch.Batch(1))
    assert told[1][2] == {"avg": 1.5, "sum": 3.0, "max": 2.0, "min": 1.0, "own": 2}

    class Short(Reduced):
        def evaluation_reducer(self):
            return {"avg": pytorch.Reducer.AVG}

    with pytest.raises(det.errors.InvalidExperimentException, match="evaluation_reducer: expected one reducer, or one for each"):
        fit(Short, pytorch.Batch(1))


def test_wrapped_reducers(told):
    class Counting(pytorch.MetricReducer):
        def reset(self):
            self.count = 0

        def update(self):
            self.count += 1

        def per_slot_reduce(self):
            return self.count

        def cross_slot_reduce(self, per_slot_metrics):
            return {"batches": sum(per_slot_metrics)}

    class Wrapping(Trial):
        name = "records"

        def before_models(self):
            self.counting = self.context.wrap_reducer(Counting(), for_validation=False)
            self.records = self.context.wrap_reducer(lambda values: sum(values), name=self.name, for_training=False)

        def step(self):
            super().step()
            self.counting.update()

        def evaluate_batch(self, batch):
            self.records.update(len(batch[0]))
            return super().evaluate_batch(batch)

    fit(Wrapping, pytorch.Batch(5), reporting_period=pytorch.Batch(3))
    assert [values.get("batches") for kind, _, values in told if kind == "training"] == [3, 2]
    assert told[-2][2]["records"] == 8
    with pytest.raises(det.errors.InvalidExperimentException, match="'error' is also a metric"):
        fit(type("Colliding", (Wrapping,), {"name": "error"}), pytorch.Batch(1))
    simple = pytorch.SimpleMetricReducer(list)
    assert simple.cross_slot_reduce([[1, 4], [2, 5], [3]]) == [1, 2, 3, 4, 5]


def test_metrics_that_are_not_numbers_and_metrics_that_differ(told):
    metrics = util.make_metrics(None, [{"a": 1.0, "b": "x", "c": None}, {"a": 2.0, "b": "y", "c": 4.0}])
    assert metrics["avg_metrics"] == {"a": 1.5, "b": None, "c": 4.0}
    with pytest.raises(ValueError, match="batch 1 of the report has the metrics"):
        util.make_metrics(None, [{"a": 1}, {"b": 1}])

    class Changing(Trial):
        def evaluate_batch(self, batch, batch_idx):
            return {f"m{batch_idx}": 1.0}

    with pytest.raises(ValueError, match="evaluate_batch: batch 1 has the metrics"):
        fit(Changing, pytorch.Batch(1))

    class Empty(Trial):
        def build_validation_data_loader(self):
            return pytorch.DataLoader(Numbered(2), batch_size=SIZE, drop_last=True)

    with pytest.raises(RuntimeError, match="build_validation_data_loader: the loader has no batches"):
        fit(Empty, pytorch.Batch(1))


def test_a_metric_is_not_changed_by_later_batches(told):
    class Running(Trial):
        total = torch.zeros(())

        def train_batch(self, batch, epoch_idx, batch_idx):
            self.total += 1
            return {"total": self.total}

    fit(Running, pytorch.Batch(3))
    assert told[0][2] == {"total": 2.0}


def test_exactly_one_evaluate_method(told):
    class Both(Trial):
        def evaluate_full_dataset(self, data_loader):
            return {"batches": len(data_loader)}

    with pytest.raises(det.errors.InvalidExperimentException, match="exactly one of evaluate_batch"):
        fit(Both, pytorch.Batch(1))

    class Full(Both):
        evaluate_batch = pytorch.PyTorchTrial.evaluate_batch

    fit(Full, pytorch.Batch(1))
    assert told[1][2] == {"batches": 2}


def test_fit_refuses_wrong_arguments():
    for options, error, text in (
        ({}, ValueError, "max_length is missing"),
        ({"max_length": pytorch.Batch([1])}, TypeError, "max_length: expected"),
        ({"max_length": pytorch.Batch(1), "checkpoint_policy": "some"}, ValueError, "got 'some'"),
    ):
        with pytest.raises(error, match=re.escape(text)):
            fit(Trial, **options)


def test_hyperparameters_and_batch_sizes(caplog):
    with pytorch.init(hparams={"global_batch_size": 10, "a": 1}) as context:
        assert (context.get_per_slot_batch_size(), context.get_global_batch_size(), context.get_hparam("a")) == (10, 10, 1)
        with pytest.raises(ValueError, match="there is no 'b', only"):
            context.get_hparam("b")
        with pytest.raises(ValueError, match="experiment configuration: none"):
            context.get_data_config()
        with pytest.raises(det.errors.InternalException, match="training has not begun"):
            context.is_epoch_start()
    assert util.calculate_batch_sizes({"global_batch_size": 10}, 4, "T") == (2, 8)
    assert "global_batch_size is 8 instead of 10" in caplog.text
    with pytest.raises(det.errors.InvalidExperimentException, match="at least one record for each of the 4 slots, got 3"):
        util.calculate_batch_sizes({"global_batch_size": 3}, 4, "T")
    with pytest.raises(ValueError, match="hyperparameters: none were given"), pytorch.init() as context:
        context.get_hparams()


def test_batches_of_any_shape_are_measured_and_moved(caplog):
    batch = {"x": [torch.zeros(3, 2), np.zeros(3)], "names": ("a", "b")}
    moved = pytorch.to_device(batch, torch.device("cpu"), set())
    assert isinstance(moved["x"][1], torch.Tensor) and moved["names"] == ("a", "b")
    assert caplog.text.count("a value of type str stays") == 1
    assert pytorch.data_length(batch) == 3
    with pytest.raises(TypeError, match="got a int"):
        pytorch.data_length(3)


# Checkpoints.


def test_a_checkpoint_has_determineds_layout_and_loads(told):
    pathlib.Path("data").mkdir()
    pathlib.Path("data/big").write_text("x")
    pathlib.Path("mine.py").write_text("a = 1\n")
    pathlib.Path("huge.txt").write_bytes(b"x" * (util.FILE_BYTES_MAX + 1))
    trial = fit(Trial, pytorch.Batch(5), hparams={"global_batch_size": 4})
    folder = pathlib.Path(told[-1][2]["path"])
    assert sorted(path.name for path in folder.iterdir()) == ["code", "load_data.json", "metadata.json", "state_dict.pth", "trial_state.pkl"]
    assert [path.name for path in (folder / "code").iterdir()] == ["mine.py"]
    state = torch.load(folder / "state_dict.pth", weights_only=False)
    assert {"models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict", "callbacks", "rng_state"} <= state.keys()
    assert {"cpu_rng_state", "np_rng_state", "random_rng_state"} <= state["rng_state"].keys()
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["steps_completed"] == 5 and metadata["framework"].startswith("torch-") and metadata["format"] == "pickle"
    made_from = json.loads((folder / "load_data.json").read_text())
    assert made_from["trial_cls_spec"] == f"{__name__}:Trial" and made_from["hparams"] == {"global_batch_size": 4}
    loaded = pytorch.load_trial_from_checkpoint_path(str(folder), trial_class=Trial)
    assert same_weights(loaded.model, trial.model)
    with pytest.raises(FileNotFoundError, match="name the folder of a PyTorchTrial's checkpoint"):
        pytorch.load_trial_from_checkpoint_path(".")


def test_the_copy_of_a_program_is_bounded(tmp_path, monkeypatch, caplog):
    source = tmp_path / "program"
    for name in ("a.py", "b/c.py", "d/e.py", ".git/f", "datasets/g.py", "w.pth", "env/pyvenv.cfg", "env/h.py", "out/i.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    (source / "link.py").symlink_to(source / "a.py")

    def copied():
        util.write_user_code(tmp_path / "to", source, [source / "out"])
        return sorted(str(path.relative_to(tmp_path / "to" / "code")) for path in (tmp_path / "to" / "code").rglob("*.*"))

    assert copied() == ["a.py", "b/c.py", "d/e.py"]
    for limit, value, kept in (("TREE_FILES_MAX", 2, 2), ("TREE_BYTES_MAX", 1, 1), ("TREE_VISITS_MAX", 1, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(util, limit, value)
            assert len(copied()) == kept
    assert caplog.text.count("start in the folder of the program") == 3


def test_weights_load_with_and_without_the_prefix_of_data_parallel_models():
    model = build()
    with torch.no_grad():
        model[0].weight.fill_(2)
    prefixed = {f"module.{name}": value for name, value in model.state_dict().items()}
    target = build()
    _checkpoint.load_models([target], [prefixed])
    assert same_weights(target, model)
    with pytest.raises(RuntimeError, match="it has 1 models, the trial wrapped 2"):
        _checkpoint.load_models([target, target], [prefixed])


def test_a_checkpoint_of_another_trial_gives_weights_only(told):
    first = fit(Trial, pytorch.Batch(5))
    uuid = told[-1][2]["uuid"]
    config = {"searcher": {"name": "single", "metric": "error", "max_length": {"batches": 2}}}
    _info.set_cluster_info(_info.ClusterInfo(trial=_info.TrialInfo(8, 3, SEED, {}, config), storage=str(core._context.default_storage())))
    started = []

    class Starting(pytorch.PyTorchCallback):
        def on_training_start(self):
            started.append(same_weights(trial.model, first.model))

    with pytorch.init() as context:
        trial = Trial(context)
        trial.build_callbacks = lambda: {"starting": Starting()}
        assert (context.get_trial_id(), context.get_experiment_id(), context.get_trial_seed()) == (8, 3, SEED)
        pytorch.Trainer(trial, context).fit(latest_checkpoint=uuid)
    assert started == [True]
    assert [batch for _, batch, _ in trial.seen] == [0, 1]


def test_the_best_policy_saves_the_best_and_the_last(told):
    class Worsening(Trial):
        def evaluate_batch(self, batch):
            return {"error": {2: 3.0, 4: 5.0, 6: 2.0, 8: 4.0}[self.context.current_train_batch() + 1]}

    config = {"searcher": {"name": "single", "metric": "error", "max_length": {"batches": 8}}}
    _info.set_cluster_info(_info.ClusterInfo(trial=_info.TrialInfo(1, 1, SEED, {}, config)))
    fit(Worsening, validation_period=pytorch.Batch(2))
    assert [steps for kind, steps, _ in told if kind == "checkpoint"] == [2, 6, 8]
    config["searcher"]["metric"] = "accuracy"
    with pytest.raises(RuntimeError, match=r"there is no validation metric 'accuracy', the trial returned \['error'\]"):
        fit(Worsening, validation_period=pytorch.Batch(2))


# Two processes.


def test_two_processes_are_a_plain_data_parallel_loop(tmp_path):
    command = [sys.executable, str(TRIALS / "two_ranks.py"), str(tmp_path / "store")]
    started = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0, 0]
    chief, worker = (json.loads(output.splitlines()[-1]) for output in outputs)
    assert chief["wrapped"] and worker["wrapped"]
    for aggregation in ("1", "3"):
        ours, theirs = chief["results"][aggregation], worker["results"][aggregation]
        tolerance = 0 if aggregation == "1" else 1e-6  # Sums are exchanged at once, not for each batch.
        assert ours["difference"] <= tolerance and theirs["difference"] <= tolerance
        assert theirs["told"] == []
        reports = [values for kind, _, values in ours["told"] if kind == "training"]
        means = np.mean(np.array(ours["losses"]).mean(axis=0).reshape(3, 3), axis=1)
        assert [values["loss"] for values in reports] == pytest.approx(list(means), rel=1e-5)
        assert [values["rank"] for values in reports] == [0.5, 0.5, 0.5]
        validation = ours["told"][-1][2]
        assert validation["error"] == pytest.approx(np.mean(ours["errors"]), rel=1e-5)
        assert validation["share"] == pytest.approx(1 / 3) and validation["seen"] == 3
        exchanged = ours["exchanged"]
        assert exchanged["gather"] == [0, 1] and theirs["exchanged"]["gather"] is None
        assert exchanged["allgather_local"] == [0, 10] and theirs["exchanged"]["broadcast"] == "from 0"
        assert exchanged["shards"] == ["metadata.json", "shard0", "shard1"]
        assert exchanged["metadata"] == {"steps_completed": 1, "rank0": 1, "rank1": 1}


def test_metrics_of_ranks_are_weighted_by_batches():
    class Ranks:
        rank, size = 0, 2

        def gather(self, mine):
            return [mine, ({"avg": 4.0, "sum": 1.0}, 1)] if isinstance(mine, tuple) else [mine, [{"loss": 5.0}]]

    reducers = {"avg": pytorch.Reducer.AVG, "sum": pytorch.Reducer.SUM}
    assert _metrics.validation_metrics(Ranks(), [{"avg": 1.0, "sum": 1.0}] * 2, reducers) == {"avg": 2.0, "sum": 3.0}
    report = _metrics.training_metrics(Ranks(), [{"loss": 1.0}, {"loss": 3.0}])
    assert report["batch_metrics"] == [{"loss": 3.0}, {"loss": 3.0}] and report["avg_metrics"] == {"loss": 3.0}
