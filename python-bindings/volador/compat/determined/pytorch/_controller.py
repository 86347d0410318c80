"""The loops of PyTorch's trainers."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import errors, util
from volador.compat.determined._loop import Loop
from volador.compat.determined.pytorch import _checkpoint, _metrics
from volador.compat.determined.pytorch._callback import PyTorchCallback
from volador.compat.determined.pytorch._data import DataLoader
from volador.compat.determined.pytorch._reducer import Reducer, reducers_of
from volador.compat.determined.pytorch._trial import PyTorchTrial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volador.compat.determined._plan import Plan
    from volador.compat.determined.pytorch._context import PyTorchTrialContext, TorchContext

_logger = logging.getLogger("determined.pytorch")


class TorchLoop(Loop):
    """What the loops of PyTorchTrial and DeepSpeedTrial have in common: callbacks, models, reports and what a validation does around its batches."""

    _context: TorchContext

    def __init__(self, trial: Any, context: TorchContext, plan: Plan) -> None:
        super().__init__(context, plan)
        self._trial = trial
        self._callbacks: dict[str, PyTorchCallback] = trial.build_callbacks()
        self._epoch_start_takes_index = {name: bool(signature(each.on_training_epoch_start).parameters) for name, each in self._callbacks.items()}
        self._shuffle_seed = 0

    def _synchronize(self) -> Callable[[], object] | None:
        return torch.cuda.synchronize if self._context.device.type == "cuda" else None

    # Start.

    def _start_callbacks(self, stack: contextlib.ExitStack) -> None:
        for callback in self._callbacks.values():
            callback.on_trial_startup(self._state.batches_trained, self._plan.latest_checkpoint)
            stack.callback(callback.on_trial_shutdown)

    def _start_training(self, stack: contextlib.ExitStack) -> None:
        for callback in self._callbacks.values():
            callback.on_training_start()
        if self._context.profiler is not None:
            stack.enter_context(self._context.profiler)

    def _choose_seed(self, of_checkpoint: int | None) -> None:
        """Of the orders of shuffled loaders: that of the checkpoint that goes on, else the trial's, else the chief's generator's."""
        seed = self._context._trial_seed if of_checkpoint is None else of_checkpoint
        self._shuffle_seed = int(self._context.distributed.broadcast(torch.initial_seed() % 2**32 if seed is None else seed))

    def _adapted(self, method: str, loader: Any, checks_disabled: bool, **options: Any) -> Any:
        """torch's loader of a pytorch.DataLoader; torch's own only where the trial has said that it sees to order and ranks."""
        if isinstance(loader, DataLoader):
            return loader.get_data_loader(seed=self._shuffle_seed, **options)
        if not checks_disabled:
            raise RuntimeError(
                f"{method}: expected a pytorch.DataLoader, got a {type(loader).__name__}: its order is not reproducible and it is not shared among ranks; "
                f"return a pytorch.DataLoader, or call {self._CHECKS}()"
            )
        return loader

    _CHECKS = "context.experimental.disable_dataset_reproducibility_checks"

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

    # Training.

    def _begin_training(self) -> None:
        for model in self._context.models:
            model.train()
        self._context.reset_reducers()

    def _on_epoch_start(self, epoch_idx: int) -> None:
        for name, callback in self._callbacks.items():
            if self._epoch_start_takes_index[name]:
                callback.on_training_epoch_start(epoch_idx)
            else:
                callback.on_training_epoch_start()  # type: ignore[call-arg]

    def _on_epoch_end(self, epoch_idx: int) -> None:
        for callback in self._callbacks.values():
            callback.on_training_epoch_end(epoch_idx)

    def _report_training(self, batches: list[Any]) -> None:
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
    def _evaluate(self) -> dict[str, Any]:
        context = self._context
        context.reset_reducers()
        for model in context.models:
            model.eval()
        callbacks = self._callbacks.values()
        for callback in callbacks:
            callback.on_validation_start()
        metrics = _metrics.united(self._evaluate_data(), context.reduce_metrics(for_training=False), "the evaluate method")
        if any(util.is_overridden(callback.on_validation_end, PyTorchCallback) for callback in callbacks):
            metrics = context.distributed.broadcast(metrics)
        for callback in callbacks:
            callback.on_validation_end(metrics)
        return metrics

    def _evaluate_data(self) -> dict[str, Any]:
        """Metrics of the validation data, at the chief."""
        raise NotImplementedError

    def _evaluate_batches(self, evaluated: Iterator[Any], reducer: Any = Reducer.AVG) -> dict[str, Any]:
        """evaluated: what evaluate_batch() returns for each batch; None where this process has no metrics of it."""
        context = self._context
        for callback in self._callbacks.values():
            callback.on_validation_epoch_start()
        outputs: list[dict[str, Any]] = []
        for index, metrics in enumerate(evaluated):
            if metrics is None:
                continue
            if not isinstance(metrics, dict):
                raise TypeError(f"evaluate_batch: expected a dictionary of metrics, got a {type(metrics).__name__}")
            if outputs and metrics.keys() != outputs[0].keys():
                raise ValueError(f"evaluate_batch: batch {index} has the metrics {sorted(metrics)}, expected {sorted(outputs[0])} as in the first")
            outputs.append(_metrics.kept(metrics))
            if self._plan.test_mode:
                break
        outputs = [_metrics.to_numpy(each) for each in outputs]
        names = next((each for each in context.distributed.allgather(sorted(outputs[0]) if outputs else None) if each is not None), None)
        if names is None:
            raise RuntimeError("build_validation_data_loader: the loader has no batches; check the data, and drop_last with less than a batch of data")
        for callback in self._callbacks.values():
            callback.on_validation_epoch_end(outputs)
        ordered = list(outputs[0]) if outputs else names
        return _metrics.validation_metrics(context.distributed, outputs, reducers_of(reducer, ordered))

    # Checkpoints.

    def _on_checkpoint_stored(self, uuid: str) -> None:
        for callback in self._callbacks.values():
            callback.on_checkpoint_upload_end(uuid=uuid)


class Controller(TorchLoop):
    """Trains a PyTorchTrial."""

    _context: PyTorchTrialContext

    def __init__(self, trial: PyTorchTrial, context: PyTorchTrialContext, plan: Plan) -> None:
        if not isinstance(trial, PyTorchTrial):
            raise TypeError(f"Trainer: expected a PyTorchTrial, got a {type(trial).__name__}; derive the class from pytorch.PyTorchTrial")
        super().__init__(trial, context, plan)
        for kind, wrapped in (("model", context.models), ("optimizer", context.optimizers)):
            if not wrapped:
                raise errors.InvalidExperimentException(f"{type(trial).__name__}: no {kind} was wrapped; call context.wrap_{kind}() in __init__")
        self._by_batch = util.is_overridden(trial.evaluate_batch, PyTorchTrial)
        if self._by_batch == util.is_overridden(trial.evaluate_full_dataset, PyTorchTrial):
            raise errors.InvalidExperimentException(
                f"{type(trial).__name__}: expected exactly one of evaluate_batch() and evaluate_full_dataset(); evaluate_batch() runs in all processes"
            )
        self._takes_index = self._by_batch and util.has_param(trial.evaluate_batch, "batch_idx", 2)
        self._validation_loader: Any = None

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            values, seed = None, None
            with self._latest_checkpoint() as found:
                if found is not None:
                    values = _checkpoint.read(found[0])
                    seed = values.get("shuffle_seed") if values is not None and found[1] else None
            self._start_callbacks(stack)
            self._choose_seed(seed)
            # Before the state is applied: an iterator of torch's loader draws from the random generator.
            batches = self._batches(self._build_loaders())
            stack.callback(batches.close)
            if values is not None:
                _checkpoint.apply(values, self._context, self._callbacks)
            self._start_training(stack)
            self._train(batches)

    def _build_loaders(self) -> Any:
        ranks, disabled = self._context.distributed, self._context.experimental._data_repro_checks_disabled
        train = self._adapted(
            "build_training_data_loader",
            self._trial.build_training_data_loader(),
            disabled,
            repeat=True,
            skip=self._state.batches_trained,
            num_replicas=ranks.size,
            rank=ranks.rank,
        )
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
            self._validation_loader = self._adapted("build_validation_data_loader", validation, disabled, num_replicas=shared[0], rank=shared[1])
        return train

    def _train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        context = self._context
        if context.experimental._auto_to_device:
            with self._timed("to_device"):
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
            with self._timed("step_lr_schedulers"):
                for scheduler in context.lr_schedulers:
                    scheduler._after_batch(batch_idx, context._aggregation_frequency, context._length())
        return _metrics.kept(metrics)

    def _evaluate_data(self) -> dict[str, Any]:
        if self._by_batch:
            return self._evaluate_batches(self._evaluated(), self._trial.evaluation_reducer())
        if not self._chief:
            return {}
        metrics = self._trial.evaluate_full_dataset(data_loader=self._validation_loader)
        if not isinstance(metrics, dict):
            raise TypeError(f"evaluate_full_dataset: expected a dictionary of metrics, got a {type(metrics).__name__}")
        return _metrics.to_numpy(metrics)

    def _evaluated(self) -> Iterator[Any]:
        for index, batch in enumerate(self._validation_loader):
            if self._context.experimental._auto_to_device:
                batch = self._context.to_device(batch)
            yield self._trial.evaluate_batch(batch=batch, batch_idx=index) if self._takes_index else self._trial.evaluate_batch(batch=batch)

    def _write_checkpoint(self) -> str:
        uuid = ""
        if self._chief:
            with self._core.checkpoint.store_path(self._metadata(f"torch-{torch.__version__}", "pickle")) as (folder, uuid):
                _checkpoint.save(folder, self._trial, self._context, self._callbacks, self._state, self._shuffle_seed)
        return str(self._context.distributed.broadcast(uuid))
