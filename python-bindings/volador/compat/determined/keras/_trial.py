"""Base of trials in Keras."""

from __future__ import annotations

import abc
from typing import Any

from volador.compat.determined._trial import Trial
from volador.compat.determined.keras._context import TFKerasTrialContext
from volador.compat.determined.keras._data import InputData


class TFKerasTrial(Trial):
    """A compiled model and its data; the trainer does the rest. Keras 3 runs it with PyTorch or TensorFlow, Keras 2 with TensorFlow."""

    trial_context_class: type | None = TFKerasTrialContext
    _trainer = "keras._trainer"

    @abc.abstractmethod
    def __init__(self, context: TFKerasTrialContext) -> None:
        self.context = context

    @abc.abstractmethod
    def build_model(self) -> Any:
        """The model: wrapped by context.wrap_model(), then compiled, with optimizers that context.wrap_optimizer() has wrapped."""

    @abc.abstractmethod
    def build_training_data_loader(self) -> InputData:
        """Arrays (x, y) or (x, y, sample_weights), of which batches are made; a keras.utils.Sequence or PyDataset; or a tf.data.Dataset that
        context.wrap_dataset() has wrapped. x: an array, a list or a dictionary of arrays."""

    @abc.abstractmethod
    def build_validation_data_loader(self) -> InputData:
        """See build_training_data_loader()."""

    def session_config(self) -> Any:
        """Not called: sessions are those of TensorFlow 1."""
        return None

    def keras_callbacks(self) -> list[Any]:
        """Callbacks of determined.keras.callbacks, or of Keras; those of Keras keep no state over a restart."""
        return []
