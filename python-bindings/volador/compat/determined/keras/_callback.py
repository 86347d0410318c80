"""DeterminedCallback: reports, checkpoints, continuation and the search's lengths for programs that call model.fit()."""

from __future__ import annotations

import logging
import pathlib
import pickle
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _info, util
from volador.compat.determined._plan import trial_info
from volador.compat.determined._units import Epoch, TrainUnit
from volador.compat.determined.core import EarlyExitReason, Unit
from volador.compat.determined.keras import _backend
from volador.compat.determined.keras._backend import keras

if TYPE_CHECKING:
    from volador.compat.determined import core

_logger = logging.getLogger("determined.keras")
_STATE = "callback_state"


class DeterminedCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """The last of the callbacks of fit(), without BackupAndRestore and ModelCheckpoint. All processes of a trial pass one.

    checkpoint: id of the checkpoint to begin with, such as get_cluster_info().latest_checkpoint, or None. continue_id: kept with checkpoints; one that
    has the same goes on with the epoch after, bit for bit, another one gives its weights only. train_metrics_report_period: "epoch", or batches between
    reports. checkpoint_epochs: epochs between checkpoints; 0: only at the end. initial_epoch of fit() has no effect. A request to stop is followed at
    the end of the epoch. Where the configuration has searcher.max_length, the training ends when the search asks for no more; fit() gets at least
    that many epochs. Metrics also have "epochs" and "batches"."""

    def __init__(
        self,
        core_context: core.Context,
        checkpoint: str | None,
        continue_id: int | str,
        *,
        train_metrics_report_period: int | str = "epoch",
        checkpoint_epochs: int = 1,
    ) -> None:
        super().__init__()
        if train_metrics_report_period != "epoch" and not (isinstance(train_metrics_report_period, int) and train_metrics_report_period > 0):
            raise ValueError(f'DeterminedCallback: train_metrics_report_period: expected "epoch" or a number of batches, got {train_metrics_report_period!r}')
        self._core = core_context
        self._chief = core_context.distributed.rank == 0
        self._checkpoint = checkpoint
        self._continue_id = continue_id
        self._report_period = train_metrics_report_period
        self._checkpoint_epochs = checkpoint_epochs
        self._steps_completed = 0
        self._epoch = -1  # The last one that ended.
        self._saved_epoch = -1
        self._operations: Any = None
        self._operation: Any = None
        self._value: Any = None  # Of the searcher's metric, at the last validation.
        self._stopped = False

    # Start.

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self._checkpoint is not None:
            self._restore(self._checkpoint)
        trial = trial_info()
        if trial is not None and (trial._config.get("searcher") or {}).get("max_length") is not None:
            self._operations = self._core.searcher.operations()
            self._next_operation()
            if self._stopped:
                self._begin_at(self.params["epochs"])

    def _restore(self, checkpoint: str) -> None:
        with self._core.checkpoint.restore_path(checkpoint) as path:
            folder = pathlib.Path(path)
            self.load_model(self.model, str(folder / "model_checkpoint"), self._core.distributed)
            if not (folder / _STATE).exists():
                return
            with open(folder / _STATE, "rb") as file:
                state = pickle.load(file)
        if state["continue_id"] != self._continue_id:
            return
        self._steps_completed = state["steps_completed"]
        self._epoch = self._saved_epoch = state["epoch"]
        self._value = state["value"]
        _backend.assign("the model beside its weights", _backend.other_variables_of(self.model), state["other_variables"])
        _backend.assign_optimizer(self.model.optimizer, state["optimizer"], self.model.trainable_variables)
        _backend.restore_random_state(state["random"])
        self._begin_at(self._epoch + 1)

    def _begin_at(self, epoch: int) -> None:
        """As BackupAndRestore does it; fit() looks after on_train_begin()."""
        if _backend.IS_3:
            self.model._initial_epoch = epoch
            return

        class State:
            def maybe_load_initial_epoch_from_ckpt(self, *_: Any, **__: Any) -> int:
                return epoch

            def maybe_load_initial_counters_from_ckpt(self, *_: Any, **__: Any) -> tuple[int, int]:
                return epoch, 0

            def delete_backup(self) -> None:
                """There is none."""

        self.model._training_state = State()

    # What the search asks for.

    def _length(self) -> TrainUnit:
        trial = trial_info()
        size = trial.hparams.get("global_batch_size") if trial is not None else None
        unit = self._core.searcher.get_configured_units() or Unit.EPOCHS
        return TrainUnit._from_searcher_unit(self._operation.length, unit, size)

    def _next_operation(self) -> None:
        """Completes those that the training has reached."""
        while True:
            self._operation = next(self._operations, None)
            if self._operation is None:
                self._stop()
                return
            length, epochs = self._length(), self.params["epochs"]
            assert isinstance(length.value, int)
            if isinstance(length, Epoch) and epochs is not None and length.value > epochs:
                raise RuntimeError(
                    f"DeterminedCallback: the search asks for {length.value} epochs, fit() for {epochs}; pass epochs={length.value} to fit(), or lower searcher.max_length"
                )
            if not self._reached():
                return
            self._complete()

    def _reached(self) -> bool:
        length = self._length()
        assert isinstance(length.value, int)
        return (self._epoch + 1 if isinstance(length, Epoch) else self._steps_completed) >= length.value

    def _complete(self) -> None:
        if not self._chief:
            return
        if self._value is None:
            name = self._core.train._searcher_metric
            raise RuntimeError(f"DeterminedCallback: there is no validation metric {name!r}, the searcher's; pass validation_data to fit(), or name a metric of the model")
        self._operation.report_completed(self._value)

    def _stop(self) -> None:
        self._stopped = True
        self.model.stop_training = True

    # The training.

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._chief:
            self._core.train.set_status("training")

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._steps_completed += 1
        if self._chief and isinstance(self._report_period, int) and self._steps_completed % self._report_period == 0:
            self._report("training", logs, self._epoch + 2)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        if self._chief:
            if self._report_period == "epoch":
                self._report("training", {name: value for name, value in (logs or {}).items() if not name.startswith("val_")}, epoch + 1)
            if self.params["epochs"]:
                self._core.train.report_progress((epoch + 1) / self.params["epochs"])
        if self._operation is not None and self._reached():
            self._complete()
            self._next_operation()
        if self._checkpoint_epochs > 0 and (epoch + 1) % self._checkpoint_epochs == 0:
            self._save()
        if self._core.preempt.should_preempt(auto_ack=False):
            if self._saved_epoch < epoch:
                self._save()
            self._core.preempt.acknowledge_preemption_signal()
            self._stop()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self._chief:
            self._core.train.set_status("validating")

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._chief:
            self._report("validation", logs, self._epoch + 2)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._saved_epoch < self._epoch:
            self._save()
        if self._operation is None or self._stopped:
            return
        if self.model.stop_training:  # By another callback.
            if self._chief:
                self._core.train.report_early_exit(EarlyExitReason.USER_REQUESTED_STOP)
        else:
            raise RuntimeError(
                f"DeterminedCallback: fit() ended at {self._steps_completed} batches, before the {self._length()!r} that the search asks for; pass more epochs to fit(), or lower searcher.max_length"
            )

    def _report(self, group: str, logs: dict[str, Any] | None, epochs: int) -> None:
        metrics = {"epochs": epochs, "batches": self._steps_completed, **(logs or {})}
        if group == "validation":
            name = self._core.train._searcher_metric or ""
            if name.startswith("val_") and name not in metrics and name[4:] in metrics:  # As a TFKerasTrial names it.
                metrics[name] = metrics[name[4:]]
            value = metrics.get(name)
            self._value = value if util.is_numerical_scalar(value) else None
        self._core.train.report_metrics(group, self._steps_completed, metrics)

    # Checkpoints.

    def _save(self) -> None:
        if self._chief:
            self._core.train.set_status("checkpointing")
        shard = util.is_overridden(self.save_model, DeterminedCallback) and self._core.distributed.size > 1
        self._saved_epoch = self._epoch
        if not shard and not self._chief:
            return
        with self._core.checkpoint.store_path({"steps_completed": self._steps_completed}, shard=shard) as (folder, _):
            self.save_model(self.model, str(folder / "model_checkpoint"), self._core.distributed)
            if self._chief:
                state = {
                    "epoch": self._epoch,
                    "steps_completed": self._steps_completed,
                    "continue_id": self._continue_id,
                    "value": self._value,
                    "other_variables": _backend.values_of(_backend.other_variables_of(self.model)),
                    "optimizer": _backend.values_of(_backend.variables_of(self.model.optimizer)),
                    "random": _backend.random_state(),
                }
                with open(folder / _STATE, "wb") as file:
                    pickle.dump(state, file)
                info = _info.get_cluster_info()
                util.write_user_code(folder, (info._code if info is not None else None) or ".", [self._core.checkpoint._storage])

    def save_model(self, model: Any, path: str, distributed: core.DistributedContext) -> None:
        """May be overridden, like load_model(); then all processes call it. By default the chief writes the weights to path, with .weights.h5 added by Keras 3."""
        if distributed.rank == 0:
            model.save_weights(_file(path), **({} if _backend.IS_3 else {"save_format": "h5"}))

    def load_model(self, model: Any, path: str, distributed: core.DistributedContext) -> None:
        """All processes call it."""
        model.load_weights(_file(path))


def _file(path: str) -> str:
    return f"{path}.weights.h5" if _backend.IS_3 else path


class TensorBoard(keras.callbacks.TensorBoard):  # type: ignore[misc, unused-ignore]
    """Keras' TensorBoard, with the trial's folder in place of log_dir. It needs tensorboard, and TensorFlow."""

    def __init__(self, core_context: core.Context, *args: Any, **kwargs: Any) -> None:
        given = kwargs.pop("log_dir", args[0] if args else None)
        if given is not None:
            _logger.info("TensorBoard: log_dir %s is ignored; event files are in the folder of the trial", given)
        super().__init__(str(core_context.train.get_tensorboard_path()), *args[1:], **kwargs)
