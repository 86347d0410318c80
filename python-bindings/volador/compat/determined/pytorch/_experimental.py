"""context.experimental."""

from __future__ import annotations

import logging
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]


class PyTorchExperimentalContext:
    """Switches of a trial; call them before the models are wrapped."""

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._auto_amp = False
        self._data_repro_checks_disabled = False
        self._auto_to_device = True

    def use_amp(self) -> None:
        """Mixed precision without further calls: forward passes run under autocast, losses are scaled, gradients unscaled before they are clipped,
        and the scaler is updated after each batch. Without a GPU nothing changes."""
        self._parent.wrap_scaler(torch.amp.GradScaler(self._parent.device.type, enabled=self._parent.device.type == "cuda"))
        self._auto_amp = True

    def disable_dataset_reproducibility_checks(self) -> None:
        """Loaders may be any torch.utils.data.DataLoader; order, sharing among ranks and continuation are the trial's."""
        self._data_repro_checks_disabled = True

    def disable_auto_to_device(self) -> None:
        """Batches stay where the loader made them; the trial calls context.to_device()."""
        self._auto_to_device = False
        logging.debug("batches are not moved to the device")
