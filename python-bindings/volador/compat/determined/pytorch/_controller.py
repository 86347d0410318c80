"""The loop of a trainer."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
import pathlib
import sys
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import core, errors, util
from volador.compat.determined.pytorch import _checkpoint, _metrics
from volador.compat.determined.pytorch._callback import PyTorchCallback
from volador.compat.determined.pytorch._data import DataLoader
from volador.compat.determined.pytorch._reducer import reducers_of
from volador.compat.determined.pytorch._trial import PyTorchTrial
from volador.compat.determined.pytorch._units import Epoch, TrainUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volador.compat.determined.pytorch._context import PyTorchTrialContext

_logger = logging.getLogger("determined.pytorch")


@dataclasses.dataclass
class Plan:
    """What fit() was asked for. max_length: for local training; else the searcher has it. searcher_metric: None in local training.
    steps_completed: what the cluster counts at the latest checkpoint, also of an experiment that this one continues."""

    checkpoint_period: TrainUnit
    validation_period: TrainUnit
    reporting_period: TrainUnit
    max_length: TrainUnit | None
    checkpoint_policy: str = "best"
    latest_checkpoint: str | None = None
    step_zero_validation: bool = False
    test_mode: bool = False
    trial_id: int = 0
    steps_completed: int = 0
    searcher_metric: str | None = None
    time_metric: str | None = None
    smaller_is_better: bool = True
    global_batch_size: int | None = None


class _Stop(Exception):
    """A stop was requested; leaves the loop. by_trial: not a preemption, after which the trial would go on."""

    def __init__(self, by_trial: bool) -> None:
        super().__init__()
        self.by_trial = by_trial


class Controller:
    """Trains until a boundary: the length, a validation, a checkpoint or a report. Then, in this order for those that were hit, it reports training
    metrics, and for each progress, validates or saves and looks for a request to stop. A validation and a checkpoint end the training."""

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext, plan: Plan) -> None:
        if not isinstance(trial, PyTorchTrial):
            raise TypeError(f"Trainer: expected a PyTorchTrial, got a {type(trial).__name__}; derive the class from pytorch.PyTorchTrial")
        self._trial = trial
        self._context = context
        self._core = context._core
        self._plan = plan
        self._chief = context.distributed.rank == 0
        self._state = _checkpoint.TrialState(trial_id=plan.trial_id)
        self._callbacks: dict[str, PyTorchCallback] = trial.build_callbacks()
        for kind, wrapped in (("model", context.models), ("optimizer", context.optimizers)):
            if not wrapped:
                raise errors.InvalidExperimentException(f"{type(trial).__name__}: no {kind} was wrapped; call context.wrap_{kind}() in __init__")
        self._by_batch = util.is_overridden(trial.evaluate_batch, PyTorchTrial)
        if self._by_batch == util.is_overridden(trial.evaluate_full_dataset, PyTorchTrial):
            raise errors.InvalidExperimentException(
                f"{type(trial).__name__}: expected exactly one of evaluate_batch() and evaluate_full_dataset(); evaluate_batch() runs in all processes"
            )
        self._takes_index = self._by_batch and util.has_param(trial.evaluate_batch, "batch_idx", 2)
        self._epoch_start_takes_index = {name: bool(signature(each.on_training_epoch_start).parameters) for name, each in self._callbacks.items()}
        self._validation_loader: Any = None
        self._shuffle_seed = 0

    # Start and end.

    def run(self) -> None:
        plan, context = self._plan, self._context
        with contextlib.ExitStack() as stack:
            restored = None
            if plan.latest_checkpoint is not None:
                _logger.info("restoring checkpoint=%s", plan.latest_checkpoint)
                with self._core.checkpoint.restore_path(plan.latest_checkpoint) as folder:
                    restored = _checkpoint.read(pathlib.Path(folder), plan.trial_id, plan.steps_completed)
                self._state = restored.state
            context._steps_completed = self._state.batches_trained
            for callback in self._callbacks.values():
                callback.on_trial_startup(self._state.batches_trained, plan.latest_checkpoint)
                stack.callback(callback.on_trial_shutdown)
            self._choose_seed(restored)
            loader = self._build_loaders()
            # Before the state is applied: an iterator of torch's loader draws from the random generator.
            batches = self._batches(loader)
            stack.callback(batches.close)
            if restored is not None and restored.values is not None:
                _checkpoint.apply(restored.values, context, self._callbacks)
            for callback in self._callbacks.values():
                callback.on_training_start()
            if context.profiler is not None:
                stack.enter_context(context.profiler)
            try:
                self._run_operations(enumerate(batches, start=self._state.batches_trained))
            except _Stop as stop:
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
                if context._tbd_writer is not None:
                    context._tbd_writer.close()
                    self._core.train.upload_tensorboard_files()

    def _choose_seed(self, restored: _checkpoint.Restored | None) -> None:
        """Of the orders of shuffled loaders: that of the checkpoint that goes on, else the trial's, else the chief's generator's."""
        seed = self._context._trial_seed
        if restored is not None and restored.same_trial and restored.values is not None:
            seed = restored.values.get("shuffle_seed", seed)
        self._shuffle_seed = int(self._context.distributed.broadcast(torch.initial_seed() % 2**32 if seed is None else seed))

    def _build_loaders(self) -> Any:
        ranks = self._context.distributed
        train = self._trial.build_training_data_loader()
        if isinstance(train, DataLoader):
            train = train.get_data_loader(
                repeat=True, skip=self._state.batches_trained, num_replicas=ranks.size, rank=ranks.rank, seed=self._shuffle_seed
            )
        else:
            self._check_raw("build_training_data_loader", train)
        try:
            length = len(train)
        except TypeError:
            length = sys.maxsize
        self._context._epoch_len = int(ranks.broadcast(length))
        if self._context._epoch_len < 1:
            raise RuntimeError("build_training_data_loader: the loader has no batches; check the data, and drop_last with less than a batch of data")
        validation = self._trial.build_validation_data_loader()
        if self._by_batch or self._chief:
            shared = (ranks.size, ranks.rank) if self._by_batch else (1, 0)
            if isinstance(validation, DataLoader):
                validation = validation.get_data_loader(num_replicas=shared[0], rank=shared[1], seed=self._shuffle_seed)
            else:
                self._check_raw("build_validation_data_loader", validation)
            self._validation_loader = validation
        return train

    def _check_raw(self, method: str, loader: Any) -> None:
        if not self._context.experimental._data_repro_checks_disabled:
            raise RuntimeError(
                f"{method}: expected a pytorch.DataLoader, got a {type(loader).__name__}: its order is not reproducible and it is not shared among ranks; "
                "return a pytorch.DataLoader, or call context.experimental.disable_dataset_reproducibility_checks()"
            )

    def _batches(self, loader: Any) -> Any:
        """A generator; close() ends the loader's processes. A loader that ends begins again, as does each pass of torch's own."""
        first = iter(loader)

        def generate(iterator: Any) -> Iterator[Any]:
            while True:
                count = 0
                for batch in iterator:
                    count += 1
                    yield batch
                if count == 0:
                    raise RuntimeError("build_training_data_loader: the loader has no batches; check the data")
                iterator = iter(loader)

        return generate(first)

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
            raise _Stop(by_trial=False)
        if any(self._context.distributed.allgather(self._context.get_stop_requested())):
            raise _Stop(by_trial=True)

    def _saved(self) -> bool:
        return self._state.last_ckpt == self._state.batches_trained

    def _validated(self) -> bool:
        return self._state.last_val == self._state.batches_trained

    # Training.

    def _train_to_boundary(self, batches: Iterator[tuple[int, Any]], kinds: tuple[tuple[str, TrainUnit], ...]) -> list[str]:
        context, state, plan = self._context, self._state, self._plan
        if self._chief:
            self._core.train.set_status("training")
        for model in context.models:
            model.train()
        context.reset_reducers()
        epoch_len = context._epoch_len
        assert epoch_len is not None
        by_epoch = [(kind, unit) for kind, unit in kinds if isinstance(unit, Epoch)]
        schedules = [(kind, unit) for kind, unit in kinds if not isinstance(unit, Epoch) and not isinstance(unit.value, int)]
        periods = [(kind, max(unit.value, 1)) for kind, unit in kinds if not isinstance(unit, Epoch) and isinstance(unit.value, int)]
        # Where the next period ends, so that batches between need not ask each of them.
        until = min((state.batches_trained // every + 1) * every for _, every in periods) if periods else sys.maxsize
        metrics: list[dict[str, Any]] = []
        hit: set[str] = set()
        for batch_idx, batch in batches:
            epoch_idx, in_epoch = divmod(batch_idx, epoch_len)
            context._current_batch_idx = batch_idx
            if in_epoch == 0:
                self._on_epoch_start(epoch_idx)
            metrics.append(self._train_batch(batch, epoch_idx, batch_idx, epoch_len))
            trained = state.batches_trained = batch_idx + 1
            if trained >= until:
                hit.update(kind for kind, every in periods if trained % every == 0)
            for kind, unit in schedules:
                if unit.should_stop(trained):
                    hit.add(kind)
            if in_epoch == epoch_len - 1:
                for callback in self._callbacks.values():
                    callback.on_training_epoch_end(epoch_idx)
                state.epochs_trained = epoch_idx + 1
                hit.update(kind for kind, unit in by_epoch if unit.should_stop(epoch_idx + 1))
            if plan.test_mode:
                hit.add("train")
            if hit:
                break
        self._report_training(metrics)
        return [kind for kind, _ in kinds if kind in hit]

    def _on_epoch_start(self, epoch_idx: int) -> None:
        for name, callback in self._callbacks.items():
            if self._epoch_start_takes_index[name]:
                callback.on_training_epoch_start(epoch_idx)
            else:
                callback.on_training_epoch_start()  # type: ignore[call-arg]

    def _train_batch(self, batch: Any, epoch_idx: int, batch_idx: int, epoch_len: int) -> dict[str, Any]:
        context = self._context
        if context.experimental._auto_to_device:
            batch = context.to_device(batch)
        steps = True
        if context._aggregation_frequency > 1:
            steps = context._should_communicate_and_update()
            for model in context.models:
                if isinstance(model, torch.nn.parallel.DistributedDataParallel):
                    model.require_backward_grad_sync = steps  # As no_sync() does, for forward and backward.
        metrics = self._trial.train_batch(batch=batch, epoch_idx=epoch_idx, batch_idx=batch_idx)
        if context.profiler is not None:
            context.profiler.step()
        if steps:
            if context._scaler is not None and context.experimental._auto_amp:
                context._scaler.update()
            for scheduler in context.lr_schedulers:
                scheduler._after_batch(batch_idx, context._aggregation_frequency, epoch_len)
        return _metrics.kept(metrics)

    def _report_training(self, batches: list[dict[str, Any]]) -> None:
        context, steps = self._context, self._state.batches_trained
        metrics = _metrics.training_metrics(context.distributed, batches)
        reduced = context.reduce_metrics(for_training=True)
        if metrics is not None:
            metrics["avg_metrics"] = _metrics.united(metrics["avg_metrics"], reduced, "train_batch()")
            self._write_scalars("train", metrics["avg_metrics"])
            self._core.train.report_training_metrics(steps, metrics["avg_metrics"], metrics["batch_metrics"])
        if self._callbacks:
            metrics = context.distributed.broadcast(metrics)
            assert metrics is not None
            for callback in self._callbacks.values():
                callback.on_training_workload_end(avg_metrics=metrics["avg_metrics"], batch_metrics=metrics["batch_metrics"])

    def _write_scalars(self, group: str, metrics: dict[str, Any]) -> None:
        """Nothing where tensorboard is not installed."""
        context = self._context
        if context.get_enable_tensorboard_logging():
            if context._tbd_writer is None and importlib.util.find_spec("tensorboard") is None:
                _logger.info("no event files for TensorBoard: it is not installed; install it with: pip install tensorboard")
                context.set_enable_tensorboard_logging(False)
                return
            _metrics.write_scalars(context.get_tensorboard_writer(), group, self._state.batches_trained, metrics)

    # Validation.

    @torch.no_grad()  # type: ignore[misc, untyped-decorator, unused-ignore]
    def _validate(self, operation: Any, length: TrainUnit | None) -> None:
        context, plan = self._context, self._plan
        if self._chief:
            self._core.train.set_status("validating")
        context.reset_reducers()
        for model in context.models:
            model.eval()
        callbacks = self._callbacks.values()
        for callback in callbacks:
            callback.on_validation_start()
        if self._by_batch:
            metrics = self._evaluate_batches()
        elif self._chief:
            metrics = self._trial.evaluate_full_dataset(data_loader=self._validation_loader)
            if not isinstance(metrics, dict):
                raise TypeError(f"evaluate_full_dataset: expected a dictionary of metrics, got a {type(metrics).__name__}")
            metrics = _metrics.to_numpy(metrics)
        else:
            metrics = {}
        metrics = _metrics.united(metrics, context.reduce_metrics(for_training=False), "the evaluate method")
        if any(util.is_overridden(callback.on_validation_end, PyTorchCallback) for callback in callbacks):
            metrics = context.distributed.broadcast(metrics)
        for callback in callbacks:
            callback.on_validation_end(metrics)
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

    def _evaluate_batches(self) -> dict[str, Any]:
        context = self._context
        for callback in self._callbacks.values():
            callback.on_validation_epoch_start()
        outputs: list[dict[str, Any]] = []
        for index, batch in enumerate(self._validation_loader):
            if context.experimental._auto_to_device:
                batch = context.to_device(batch)
            metrics = self._trial.evaluate_batch(batch=batch, batch_idx=index) if self._takes_index else self._trial.evaluate_batch(batch=batch)  # type: ignore[call-arg]
            if not isinstance(metrics, dict):
                raise TypeError(f"evaluate_batch: expected a dictionary of metrics, got a {type(metrics).__name__}")
            if outputs and metrics.keys() != outputs[0].keys():
                raise ValueError(f"evaluate_batch: batch {index} has the metrics {sorted(metrics)}, expected {sorted(outputs[0])} as in the first")
            outputs.append(_metrics.kept(metrics))
            if self._plan.test_mode:
                break
        outputs = [_metrics.to_numpy(each) for each in outputs]
        names = context.distributed.broadcast(sorted(outputs[0]) if outputs else None)
        if names is None:
            raise RuntimeError("build_validation_data_loader: the loader has no batches; check the data, and drop_last with less than a batch of data")
        for callback in self._callbacks.values():
            callback.on_validation_epoch_end(outputs)
        ordered = list(outputs[0]) if outputs else names
        return _metrics.validation_metrics(context.distributed, outputs, reducers_of(self._trial.evaluation_reducer(), ordered))

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
        context, state = self._context, self._state
        if self._chief:
            self._core.train.set_status("checkpointing")
        state.last_ckpt = state.batches_trained
        uuid = ""
        try:
            if self._chief:
                metadata = {
                    "steps_completed": state.batches_trained,
                    "framework": f"torch-{torch.__version__}",
                    "format": "pickle",
                }
                with self._core.checkpoint.store_path(metadata) as (folder, uuid):
                    _checkpoint.save(folder, self._trial, context, self._callbacks, state, self._shuffle_seed)
            uuid = context.distributed.broadcast(uuid)
            for callback in self._callbacks.values():
                callback.on_checkpoint_upload_end(uuid=uuid)
        except errors.InvalidHP:
            if not ending:
                self._core.train.report_early_exit(core.EarlyExitReason.INVALID_HP)
                raise
            _logger.warning("InvalidHP in a callback of the last checkpoint is ignored")
