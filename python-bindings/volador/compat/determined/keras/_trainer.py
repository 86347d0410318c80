"""Trains a TFKerasTrial."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _averages, core, errors
from volador.compat.determined._loop import Loop
from volador.compat.determined._plan import plan_of
from volador.compat.determined._trial_context import open_context
from volador.compat.determined._units import Epoch
from volador.compat.determined.keras import _backend, _checkpoint, _data
from volador.compat.determined.keras._backend import keras
from volador.compat.determined.keras._context import TFKerasTrialContext
from volador.compat.determined.keras.callbacks import Callback, TensorBoard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volador.compat.determined._plan import Plan

_logger = logging.getLogger("determined.keras")
_LENGTHLESS = 1 << 62  # Batches of an epoch of data without a length.


class _Evaluation(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Passes batches of a validation on. Not its end: that has the metrics of this process only."""

    def __init__(self, callbacks: list[Any]) -> None:
        super().__init__()
        self._callbacks = callbacks

    def on_test_begin(self, logs: Any = None) -> None:
        for callback in self._callbacks:
            callback.on_test_begin({})

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        for callback in self._callbacks:
            callback.on_test_batch_begin(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        for callback in self._callbacks:
            callback.on_test_batch_end(batch, logs)


class Controller(Loop):
    """Trains the trial batch by batch with train_on_batch(), so that a report, a validation or a checkpoint can follow any of them."""

    _context: TFKerasTrialContext

    def __init__(self, trial: Any, context: TFKerasTrialContext, plan: Plan) -> None:
        super().__init__(context, plan)
        self._trial = trial
        self._model: Any = None
        self._callbacks: list[Any] = []
        self._validation: Any = None
        self._shuffle_seed = 0

    def run(self) -> None:
        context = self._context
        self._model = _model_of(self._trial, context)
        self._callbacks = list(self._trial.keras_callbacks())
        with contextlib.ExitStack() as stack:
            with self._latest_checkpoint() as found:
                saved = None if found is None else _checkpoint.Saved(found[0])
                seed = context._trial_seed
                if found is not None and saved is not None and found[1]:
                    seed = saved.random["shuffle_seed"]
                self._shuffle_seed = int(context.distributed.broadcast(seed or 0))
                training = self._build_data()
                for callback in self._callbacks:
                    callback.set_params({"verbose": int(bool(context._fit["verbose"])), "epochs": 1, "steps": training.length})
                    if isinstance(callback, TensorBoard):
                        callback.log_dir = str(context.get_tensorboard_path())
                    callback.set_model(self._model)
                self._model.stop_training = False
                for callback in self._callbacks:
                    callback.on_train_begin({})
                    stack.callback(callback.on_train_end, {})
                batches = training.endless(self._state.batches_trained)
                if saved is not None:
                    batches = self._built(batches)
                    saved.apply(self._model, context, self._callbacks)
            if hasattr(batches, "close"):
                stack.callback(batches.close)
            if context.distributed.size > 1:
                self._begin_alike(saved is not None)
            self._train(batches)

    def _build_data(self) -> Any:
        context, ranks = self._context, self._context.distributed
        fit, size = context._fit, context.get_per_slot_batch_size()
        names = "build_training_data_loader", "build_validation_data_loader"
        seed = self._shuffle_seed if fit["shuffle"] else None
        training = _data.adapt(names[0], self._trial.build_training_data_loader(), size, seed, fit, ranks.rank, ranks.size)
        self._validation = _data.adapt(names[1], self._trial.build_validation_data_loader(), size, None, fit, ranks.rank, ranks.size)
        records = (context._exp_conf or {}).get("records_per_epoch")
        length = max(int(records) // context.get_global_batch_size(), 1) if records else training.length
        length = ranks.broadcast(length)
        plan = self._plan
        if length is None and any(isinstance(unit, Epoch) for unit in (plan.max_length, plan.validation_period, plan.checkpoint_period, plan.reporting_period)):
            raise errors.InvalidExperimentException("records_per_epoch: the data has no length, so that there are no epochs; set it, or give lengths in batches")
        context._epoch_len = length or _LENGTHLESS
        return training

    def _built(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The model has its variables; those of some appear with their first batch, which is still to come."""
        if self._model.built:
            return batches
        first = next(batches)
        x, y, weight = _data.unpack(first)
        self._model.test_on_batch(x, y, weight)

        def rest() -> Iterator[Any]:
            try:
                yield from itertools.chain((first,), batches)
            finally:
                if hasattr(batches, "close"):
                    batches.close()

        return rest()

    def _begin_alike(self, restored: bool) -> None:
        """All processes have the chief's weights. A model that is built later begins with those that its seed gives."""
        if not restored and self._model.built:
            values = self._context.distributed.broadcast(_backend.values_of(self._model.weights) if self._chief else None)
            _backend.assign("the model", self._model.weights, values)

    # Training.

    def _begin_training(self) -> None:
        for callback in self._of_determined():
            callback.on_train_workload_begin(self._state.batches_trained, None, {})

    def _of_determined(self) -> list[Callback]:
        return [each for each in self._callbacks if isinstance(each, Callback)]

    def _on_epoch_start(self, epoch_idx: int) -> None:
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch_idx, {})

    def _on_epoch_end(self, epoch_idx: int) -> None:
        for callback in self._callbacks:
            callback.on_epoch_end(epoch_idx, {})

    def _train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y, weight = _data.unpack(batch)
        in_epoch = batch_idx % self._context._length()
        for callback in self._callbacks:
            callback.on_train_batch_begin(in_epoch, {})
        self._model.reset_metrics()
        logs: dict[str, Any] = self._model.train_on_batch(x, y, weight, class_weight=self._context._fit["class_weight"], return_dict=True)
        for callback in self._callbacks:
            callback.on_train_batch_end(in_epoch, dict(logs))
        return logs

    def _report_training(self, batches: list[Any]) -> None:
        metrics = _averages.training_metrics(self._context.distributed, batches)
        if metrics is not None:
            self._core.train.report_training_metrics(self._state.batches_trained, metrics["avg_metrics"], metrics["batch_metrics"])
        callbacks = self._of_determined()
        if callbacks:
            average = self._context.distributed.broadcast(None if metrics is None else metrics["avg_metrics"])
            for callback in callbacks:
                callback.on_train_workload_end(self._state.batches_trained, average)

    def _stop_if_requested(self) -> None:
        if self._model.stop_training and not self._context.get_stop_requested():
            self._context.set_stop_requested(True)
        super()._stop_if_requested()

    # Validation.

    def _evaluate(self) -> dict[str, Any]:
        chosen = itertools.islice(self._validation.once(), self._context._fit["validation_steps"])
        first = next(chosen, None)
        records = 0

        def counted() -> Iterator[Any]:
            nonlocal records
            for batch in itertools.chain((first,), chosen):
                records += _data.records_of(batch)
                yield batch if isinstance(batch, tuple) else tuple(batch) if isinstance(batch, list) else (batch,)

        logs: dict[str, Any] = {}
        if first is not None:
            logs = self._model.evaluate(counted(), verbose=0, return_dict=True, callbacks=[_Evaluation(self._callbacks)])
        united = _averages.weighted(self._context.distributed.allgather((logs, records)))
        if not united:
            raise RuntimeError("build_validation_data_loader: there are no batches; check the data")
        metrics = {name if name.startswith("val_") else f"val_{name}": float(value) for name, value in united.items()}
        for callback in self._callbacks:
            callback.on_test_end(dict(metrics))
        return metrics

    # Checkpoints.

    def _write_checkpoint(self) -> str:
        uuid = ""
        if self._chief:
            with self._core.checkpoint.store_path(self._metadata(_backend.framework(), "h5")) as (folder, uuid):
                _checkpoint.save(folder, self._trial, self._model, self._context, self._callbacks, self._state, self._shuffle_seed)
        return str(self._context.distributed.broadcast(uuid))


def _model_of(trial: Any, context: TFKerasTrialContext) -> Any:
    """InvalidExperimentException: it is not wrapped or not compiled."""
    model = trial.build_model()
    name = type(trial).__name__
    if not any(model is each for each in context._models):
        raise errors.InvalidExperimentException(f"{name}.build_model: it returned a model that was not wrapped; call context.wrap_model() before compile()")
    if getattr(model, "optimizer", None) is None:
        raise errors.InvalidExperimentException(f"{name}.build_model: the model is not compiled; call model.compile() with an optimizer")
    if not any(model.optimizer is each for each in context._optimizers):
        optimizer = context.wrap_optimizer(model.optimizer)
        if optimizer is not model.optimizer:
            raise errors.InvalidExperimentException(f"{name}.build_model: several slots need a wrapped optimizer; call context.wrap_optimizer() before compile()")
    return model


@contextlib.contextmanager
def _processes() -> Iterator[core.DistributedContext | None]:
    """Those of horovodrun or of torchrun; None for one process."""
    if "HOROVOD_RANK" in os.environ:
        import horovod.tensorflow.keras as hvd  # type: ignore[import-not-found, import-untyped, unused-ignore]

        hvd.init()
        yield core.DistributedContext.from_horovod(hvd) if hvd.size() > 1 else None
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1 and _backend.backend() != "torch":
        raise errors.InvalidExperimentException(
            f"KERAS_BACKEND={_backend.backend()}: several slots need Horovod; start with python3 -m determined.launch.horovod --trial module:Class, "
            "or set KERAS_BACKEND=torch"
        )
    elif _backend.backend() == "torch":
        from volador.compat.determined.pytorch._trainer import processes

        with processes(None) as ranks:
            yield ranks
    else:
        yield None


def train(trial_class: Any, hparams: dict[str, Any], config: dict[str, Any], fit: dict[str, Any]) -> None:
    """Trains one of the class as the launcher asks; fit: the periods and the like."""
    plan = plan_of(_logger, max_length=None, test_mode=False, **fit)
    with _processes() as ranks, open_context(
        TFKerasTrialContext, ranks, _backend.set_random_seeds, config, hparams=hparams, optimizations=config.get("optimizations")
    ) as context:
        Controller(trial_class(context), context, plan).run()
