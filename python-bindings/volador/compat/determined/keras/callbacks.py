"""Callbacks of a TFKerasTrial: those of Keras with a state, at validations in place of the ends of epochs."""

from __future__ import annotations

import logging
from typing import Any

from volador.compat.determined.keras._backend import keras

_logger = logging.getLogger("determined.keras")


class Callback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Keras' callback with what a trial adds.

    on_epoch_end() is called where an epoch ends, with empty logs, since validations do not follow epochs. on_test_end() gets the metrics of all
    processes, with val_ before their names."""

    def on_train_workload_begin(self, total_batches_trained: int, batches_requested: int | None, logs: dict[str, Any]) -> None:
        """Before batches that a report, a validation or a checkpoint ends. batches_requested: None here."""

    def on_train_workload_end(self, total_batches_trained: int, logs: dict[str, Any]) -> None:
        """After a report; logs: the means of its batches."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Chief only. After the files were written; may add some."""

    def get_state(self) -> Any:
        """What a checkpoint keeps of this callback; it is pickled."""
        return None

    def load_state(self, state: Any) -> None:
        """Gets what get_state() returned, after on_train_begin(), from the callback at the same place of keras_callbacks()."""


class _AtValidations(Callback):
    """Does at validations what Keras' callback does at the ends of epochs, and keeps its state."""

    _KEPT: tuple[str, ...] = ()
    test_end_count: int = 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Nothing: there are no metrics."""

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(self.test_end_count, logs)
        self.test_end_count += 1

    def get_state(self) -> Any:
        return {name: getattr(self, name) for name in (*self._KEPT, "test_end_count") if hasattr(self, name)}

    def load_state(self, state: Any) -> None:
        for name, value in state.items():
            setattr(self, name, value)


class EarlyStopping(_AtValidations, keras.callbacks.EarlyStopping):  # type: ignore[misc, unused-ignore]
    """Keras' EarlyStopping that looks after each validation. patience counts validations; min_validation_period sets how often there is one."""

    _KEPT = ("baseline", "best", "best_epoch", "best_weights", "stopped_epoch", "wait")


class ReduceLROnPlateau(_AtValidations, keras.callbacks.ReduceLROnPlateau):  # type: ignore[misc, unused-ignore]
    """Keras' ReduceLROnPlateau that looks after each validation. patience and cooldown count validations."""

    _KEPT = ("best", "cooldown_counter", "wait")


class TensorBoard(keras.callbacks.TensorBoard, Callback):  # type: ignore[misc, unused-ignore]
    """Keras' TensorBoard, with the trial's folder in place of log_dir, and a point for each report. It needs tensorboard, and TensorFlow."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = kwargs.pop("log_dir", args[0] if args else None)
        if given is not None:
            _logger.info("TensorBoard: log_dir %s is ignored; event files are in the folder of the trial", given)
        self._workloads = 0
        super().__init__("tensorboard", *args[1:], **kwargs)  # The trainer sets the folder.

    def on_train_workload_begin(self, total_batches_trained: int, batches_requested: int | None, logs: dict[str, Any]) -> None:
        keras.callbacks.TensorBoard.on_epoch_begin(self, self._workloads, logs)

    def on_train_workload_end(self, total_batches_trained: int, logs: dict[str, Any]) -> None:
        keras.callbacks.TensorBoard.on_epoch_end(self, self._workloads, logs)
        self._workloads += 1

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Nothing: see on_train_workload_begin()."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Nothing: see on_train_workload_end()."""

    def get_state(self) -> Any:
        return {"workloads": self._workloads}

    def load_state(self, state: Any) -> None:
        self._workloads = state["workloads"]
