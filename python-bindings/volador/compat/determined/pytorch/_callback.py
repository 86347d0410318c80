"""Hooks into the training of a trial."""

from __future__ import annotations

from typing import Any


class PyTorchCallback:
    """Base of callbacks; each method does nothing. All processes call them, except where a method says otherwise."""

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Once, before the data loaders are built and a checkpoint is loaded. first_batch_idx: where the training goes on."""

    def on_trial_shutdown(self) -> None:
        """Once for each on_trial_startup(), also where the training raised."""

    def on_training_start(self) -> None:
        """Once, after a checkpoint was loaded."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Before the first batch of an epoch; not where the training goes on within one."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """After the last batch of an epoch."""

    def on_training_workload_end(self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]) -> None:
        """After each report of training metrics: means over the batches and processes, and those of each batch."""

    def on_validation_start(self) -> None:
        """Before a validation."""

    def on_validation_epoch_start(self) -> None:
        """Before the first batch of a validation; with evaluate_batch() only."""

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """After its last batch: what evaluate_batch() returned in this process."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """After the metrics were reduced over the processes, before they are reported."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """Before the state is applied; may change the dictionary."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """Chief only. Before the state is written; may change the dictionary."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Chief only. Former name of on_checkpoint_write_end()."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """Chief only. After the files were written; may add some."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """After the checkpoint is in the storage."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of this callback."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Gets what state_dict() returned, under the same name in build_callbacks()."""
