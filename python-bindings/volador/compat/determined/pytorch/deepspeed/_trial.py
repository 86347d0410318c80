"""Base of trials in DeepSpeed."""

from __future__ import annotations

import abc
import pathlib
from typing import TYPE_CHECKING, Any

from volador.compat.determined._trial import Trial
from volador.compat.determined.pytorch._callback import PyTorchCallback
from volador.compat.determined.pytorch.deepspeed._context import DeepSpeedTrialContext

if TYPE_CHECKING:
    from collections.abc import Iterator


class DeepSpeedTrial(Trial):
    """Engines, data and the work of one micro-batch; the trainer does the rest. __init__ wraps the engines of deepspeed.initialize()."""

    trial_context_class: type | None = DeepSpeedTrialContext
    _trainer = "pytorch.deepspeed._trainer"

    @abc.abstractmethod
    def __init__(self, context: DeepSpeedTrialContext) -> None:
        self.context = context

    @abc.abstractmethod
    def train_batch(self, dataloader_iter: Iterator[Any] | None, epoch_idx: int, batch_idx: int) -> Any:
        """Takes a micro-batch from the iterator, forward, engine.backward(), engine.step(). Called for each of the engine's gradient accumulation steps;
        once for a batch with a PipelineEngine and after context.disable_auto_grad_accumulation(). Returns metrics by name, or the loss alone."""

    @abc.abstractmethod
    def evaluate_batch(self, dataloader_iter: Iterator[Any] | None, batch_idx: int) -> dict[str, Any]:
        """Metrics by name, the same names for each batch. All processes take part."""

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any:
        """A pytorch.DataLoader of micro-batches, or torch's after context.disable_dataset_reproducibility_checks()."""

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any:
        """See build_training_data_loader()."""

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Callbacks by name; called in this order."""
        return {}

    def save(self, context: DeepSpeedTrialContext, path: pathlib.Path) -> None:
        """All processes write their parts of the engines into one folder."""
        for index, engine in enumerate(context.models):
            engine.save_checkpoint(str(path), tag=f"model{index}")

    def load(self, context: DeepSpeedTrialContext, path: pathlib.Path) -> None:
        """See save(). RuntimeError: an engine found no checkpoint."""
        for index, engine in enumerate(context.models):
            found, _ = engine.load_checkpoint(str(path), tag=f"model{index}")
            if found is None:
                raise RuntimeError(f"checkpoint {path}: engine {index} cannot load it; use as many processes and engines as the trial that wrote it")
