"""The loop of all trainers: lengths, periods, reports, requests to stop and checkpoints. What a batch is, a framework's trainer says."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import logging
import pathlib
import pickle
import sys
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _profiler, core, errors, util
from volador.compat.determined._units import Epoch, TrainUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volador.compat.determined._plan import Plan
    from volador.compat.determined._trial_context import TrialContext

_logger = logging.getLogger("determined")


@dataclasses.dataclass
class TrialState:
    """Counters of a trial, in batches except for epochs_trained."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0


def read_state(folder: pathlib.Path, trial_id: int, continued_at: int = 0) -> tuple[TrialState, bool]:
    """Counters of a checkpoint, and whether they go on; they begin anew where only weights and states are taken (warm start).

    continued_at: batches at which the trial goes on with another one's counters, as a new experiment that continues an earlier one does; 0: it does not."""
    counters: dict[str, Any] = {}
    for name in ("trial_state.pkl", "workload_sequencer.pkl"):
        if (folder / name).exists():
            with open(folder / name, "rb") as file:
                counters = pickle.load(file)
            break
    counters.setdefault("batches_trained", counters.get("steps_completed", 0))
    if counters.get("trial_id") != trial_id and not 0 < continued_at == counters["batches_trained"]:
        return TrialState(trial_id=trial_id), False
    counters["trial_id"] = trial_id
    names = {field.name for field in dataclasses.fields(TrialState)}
    return TrialState(**{name: value for name, value in counters.items() if name in names}), True


class Stop(Exception):
    """A stop was requested; leaves the loop. by_trial: not a preemption, after which the trial would go on."""

    def __init__(self, by_trial: bool) -> None:
        super().__init__()
        self.by_trial = by_trial


class Loop(abc.ABC):
    """Trains until a boundary: the length, a validation, a checkpoint or a report. Then, in this order for those that were hit, it reports training
    metrics, and for each progress, validates or saves and looks for a request to stop. A validation and a checkpoint end the training."""

    def __init__(self, context: TrialContext, plan: Plan) -> None:
        self._context = context
        self._core = context._core
        self._plan = plan
        self._chief = context.distributed.rank == 0
        self._state = TrialState(trial_id=plan.trial_id)
        self._timings = self._timings_of(context, plan) if context._profiling is not None and self._chief else None

    def _timings_of(self, context: TrialContext, plan: Plan) -> _profiler.Timings:
        assert context._profiling is not None
        size = context._batch_sizes[1] if context._batch_sizes is not None else plan.global_batch_size
        return _profiler.Timings(context._profiling, size, self._synchronize())

    def _timed(self, part: str) -> contextlib.AbstractContextManager[None]:
        """For a block whose time the trial's profile states."""
        return _profiler.NOTHING if self._timings is None else self._timings.part(part)

    # What a framework's trainer does; all processes call these.

    @abc.abstractmethod
    def _begin_training(self) -> None:
        """Before the first batch after the start, a validation or a checkpoint."""

    @abc.abstractmethod
    def _train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Metrics of the batch, for _report_training()."""

    @abc.abstractmethod
    def _on_epoch_start(self, epoch_idx: int) -> None: ...

    @abc.abstractmethod
    def _on_epoch_end(self, epoch_idx: int) -> None: ...

    @abc.abstractmethod
    def _report_training(self, batches: list[Any]) -> None:
        """What _train_batch() returned since the last report."""

    @abc.abstractmethod
    def _evaluate(self) -> dict[str, Any]:
        """Metrics of a validation; those of the chief count."""

    @abc.abstractmethod
    def _write_checkpoint(self) -> str:
        """Stores one and returns its id."""

    def _synchronize(self) -> Callable[[], object] | None:
        """Waits for the device, which works behind the program; None: it does not."""
        return None

    def _on_checkpoint_stored(self, uuid: str) -> None:  # noqa: B027
        """After the checkpoint is in the storage."""

    def _write_scalars(self, group: str, metrics: dict[str, Any]) -> None:  # noqa: B027
        """At the chief: metrics of "train" or "val" for TensorBoard."""

    # Start and end.

    @contextlib.contextmanager
    def _latest_checkpoint(self) -> Iterator[tuple[pathlib.Path, bool] | None]:
        """Folder of the checkpoint to go on from, and whether its counters go on. They are this loop's within the block."""
        plan = self._plan
        if plan.latest_checkpoint is None:
            yield None
            return
        _logger.info("restoring checkpoint=%s", plan.latest_checkpoint)
        with self._core.checkpoint.restore_path(plan.latest_checkpoint) as path:
            folder = pathlib.Path(path)
            self._state, same_trial = read_state(folder, plan.trial_id, plan.steps_completed)
            self._context._steps_completed = self._state.batches_trained
            yield folder, same_trial

    def _train(self, batches: Any) -> None:
        """To the end, or to a request to stop. batches: without end."""
        self._core.train._keep_events_stored()
        try:
            self._run_operations(enumerate(batches, start=self._state.batches_trained))
        except Stop as stop:
            if not self._saved():
                self._save(ending=True)
            if not stop.by_trial:
                self._core.preempt.acknowledge_preemption_signal()
            elif self._chief:
                self._core.train.report_early_exit(core.EarlyExitReason.USER_REQUESTED_STOP)
        except errors.InvalidHP:
            if not self._saved():
                self._save(ending=True)
            raise
        finally:
            if self._context._tbd_writer is not None:
                self._context._tbd_writer.close()
            self._core.train._store_last_events()

    # Operations and boundaries.

    def _run_operations(self, batches: Iterator[tuple[int, Any]]) -> None:
        plan = self._plan
        if plan.step_zero_validation and self._state.batches_trained == 0:
            self._validate(None, None)
        units = self._core.searcher.get_configured_units()
        if plan.max_length is not None:
            length = plan.max_length.value
            assert isinstance(length, int)
            operations = core.SearcherContext(self._context.distributed, length).operations()
        else:
            operations = self._core.searcher.operations()
        for operation in operations:
            unit = plan.max_length or TrainUnit._from_searcher_unit(operation.length, units, plan.global_batch_size)
            self._train_for(operation, unit, batches)

    def _train_for(self, operation: Any, length: TrainUnit, batches: Iterator[tuple[int, Any]]) -> None:
        plan = self._plan
        kinds = (("train", length), ("validate", plan.validation_period), ("checkpoint", plan.checkpoint_period), ("report", plan.reporting_period))
        done = self._left(length) < 1
        while not done:
            hit = self._train_to_boundary(batches, kinds)
            for kind in hit:
                if kind == "train":
                    done = True
                    if self._chief and not operation._completed:
                        self._report_progress(operation, length)
                elif kind == "validate" and not self._validated():
                    self._validate(operation, length)
                elif kind == "checkpoint" and not self._saved():
                    self._save()
                self._stop_if_requested()
        if self._context.distributed.broadcast(not self._validated() or not (operation._completed or plan.test_mode)):
            self._validate(operation, length)
        if not self._saved():
            self._save()

    def _left(self, length: TrainUnit) -> int:
        assert isinstance(length.value, int)
        return length.value - (self._state.epochs_trained if isinstance(length, Epoch) else self._state.batches_trained)

    def _report_progress(self, operation: Any, length: TrainUnit) -> None:
        assert isinstance(length.value, int)
        trained = self._state.epochs_trained if isinstance(length, Epoch) else self._state.batches_trained
        operation.report_progress(operation.length * min(trained / max(length.value, 1), 1))

    def _stop_if_requested(self) -> None:
        """All processes stop together, whichever of them asked."""
        if self._core.preempt.should_preempt(auto_ack=False):
            raise Stop(by_trial=False)
        if any(self._context.distributed.allgather(self._context.get_stop_requested())):
            raise Stop(by_trial=True)

    def _saved(self) -> bool:
        return self._state.last_ckpt == self._state.batches_trained

    def _validated(self) -> bool:
        return self._state.last_val == self._state.batches_trained

    # Training.

    def _train_to_boundary(self, batches: Iterator[tuple[int, Any]], kinds: tuple[tuple[str, TrainUnit], ...]) -> list[str]:
        context, state, plan = self._context, self._state, self._plan
        if self._chief:
            self._core.train.set_status("training")
        self._begin_training()
        epoch_len = context._epoch_len
        assert epoch_len is not None
        by_epoch = [(kind, unit) for kind, unit in kinds if isinstance(unit, Epoch)]
        schedules = [(kind, unit) for kind, unit in kinds if not isinstance(unit, Epoch) and not isinstance(unit.value, int)]
        periods = [(kind, max(unit.value, 1)) for kind, unit in kinds if not isinstance(unit, Epoch) and isinstance(unit.value, int)]
        # Where the next period ends, so that batches between need not ask each of them.
        until = min((state.batches_trained // every + 1) * every for _, every in periods) if periods else sys.maxsize
        metrics: list[Any] = []
        hit: set[str] = set()
        for batch_idx, batch in batches if self._timings is None else self._timings.batches(batches):
            epoch_idx, in_epoch = divmod(batch_idx, epoch_len)
            context._current_batch_idx = batch_idx
            if in_epoch == 0:
                self._on_epoch_start(epoch_idx)
            with self._timed("train_batch"):
                metrics.append(self._train_batch(batch, epoch_idx, batch_idx))
            trained = state.batches_trained = batch_idx + 1
            if trained >= until:
                hit.update(kind for kind, every in periods if trained % every == 0)
            for kind, unit in schedules:
                if unit.should_stop(trained):
                    hit.add(kind)
            if in_epoch == epoch_len - 1:
                self._on_epoch_end(epoch_idx)
                state.epochs_trained = epoch_idx + 1
                hit.update(kind for kind, unit in by_epoch if unit.should_stop(epoch_idx + 1))
            if plan.test_mode:
                hit.add("train")
            if hit:
                break
        with self._timed("reduce_metrics"):
            self._report_training(metrics)
        if self._timings is not None and (times := self._timings.take()):
            self._core.train._report(_profiler.GROUP, self._state.batches_trained, times)
        return [kind for kind, _ in kinds if kind in hit]

    # Validation.

    def _validate(self, operation: Any, length: TrainUnit | None) -> None:
        context, plan = self._context, self._plan
        if self._chief:
            self._core.train.set_status("validating")
        metrics = self._evaluate()
        if self._chief and plan.time_metric in ("batches", "epochs"):  # What the search counts with; the trial may return it itself.
            assert context._epoch_len is not None
            trained = self._state.batches_trained
            metrics = {plan.time_metric: trained if plan.time_metric == "batches" else trained / context._epoch_len, **metrics}
        self._state.last_val = self._state.batches_trained
        wanted = False
        if self._chief:
            self._write_scalars("val", metrics)
            best = self._core.train.get_experiment_best_validation()
            self._core.train.report_validation_metrics(self._state.batches_trained, metrics)
            value = self._searcher_value(metrics) if plan.searcher_metric else None
            if operation is not None and length is not None and not operation._completed and self._left(length) < 1:
                operation.report_completed(value)
            better = value is None or best is None or (value < best if plan.smaller_is_better else value > best)
            wanted = not self._saved() and (plan.checkpoint_policy == "all" or (plan.checkpoint_policy == "best" and better))
        if context.distributed.broadcast(wanted):
            self._save()

    def _searcher_value(self, metrics: dict[str, Any]) -> Any:
        name = self._plan.searcher_metric
        if name not in metrics:
            raise RuntimeError(f"searcher.metric: there is no validation metric {name!r}, the trial returned {sorted(metrics)}; name one of them in the configuration")
        value = metrics[name]
        if not util.is_numerical_scalar(value):
            raise RuntimeError(f"searcher.metric: expected {name!r} to be one number, got {value!r}; reduce it in the trial")
        return value

    # Checkpoints.

    def _save(self, ending: bool = False) -> None:
        """An InvalidHP that a callback raises ends the trial, except where it ends anyway."""
        if self._chief:
            self._core.train.set_status("checkpointing")
        self._state.last_ckpt = self._state.batches_trained
        try:
            self._on_checkpoint_stored(self._write_checkpoint())
        except errors.InvalidHP:
            if not ending:
                self._core.train.report_early_exit(core.EarlyExitReason.INVALID_HP)
                raise
            _logger.warning("InvalidHP in a callback of the last checkpoint is ignored")

    def _metadata(self, framework: str, kind: str) -> dict[str, Any]:
        return {"steps_completed": self._state.batches_trained, "framework": framework, "format": kind}
