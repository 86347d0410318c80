"""Base of trials in PyTorch."""

from __future__ import annotations

import abc
from typing import Any

from volador.compat.determined._trial import Trial
from volador.compat.determined.pytorch._callback import PyTorchCallback
from volador.compat.determined.pytorch._context import PyTorchTrialContext
from volador.compat.determined.pytorch._data import data_length
from volador.compat.determined.pytorch._reducer import Reducer


class PyTorchTrial(Trial):
    """Models, data and the work of one batch; the trainer does the rest.

    __init__ wraps models, optimizers and schedulers with the context. A trial defines exactly one of evaluate_batch() and evaluate_full_dataset()."""

    trial_context_class: type | None = PyTorchTrialContext
    _trainer = "pytorch._trainer"

    @abc.abstractmethod
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context

    @abc.abstractmethod
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Forward, context.backward(), context.step_optimizer(). batch_idx counts from the start of the trial.

        Returns metrics by name, or the loss alone; tensors are read at the next report, so that a device need not wait."""

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any:
        """A pytorch.DataLoader, or torch's after context.experimental.disable_dataset_reproducibility_checks()."""

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any:
        """See build_training_data_loader()."""

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Callbacks by name; called in this order."""
        return {}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """Metrics by name, the same names for each batch; batch_idx may be left out. All processes take part."""
        raise NotImplementedError

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        """Metrics by name from the whole validation data; called at the chief only."""
        raise NotImplementedError

    def evaluation_reducer(self) -> Any:
        """A Reducer for all metrics of evaluate_batch(), or one for each by name."""
        return Reducer.AVG

    def get_batch_length(self, batch: Any) -> int:
        """Records in a batch."""
        return data_length(batch)
