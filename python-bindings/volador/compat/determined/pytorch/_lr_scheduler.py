"""When a learning rate schedule steps."""

from __future__ import annotations

import enum
from typing import Any


class LRScheduler:
    """A scheduler of torch, and when the trainer steps it: never (MANUAL_STEP), or every `frequency` epochs, batches or optimizer steps.

    With aggregated gradients nothing steps between optimizer steps; STEP_EVERY_BATCH and STEP_EVERY_EPOCH catch up at the next one."""

    class StepMode(enum.Enum):
        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        MANUAL_STEP = 3
        STEP_EVERY_OPTIMIZER_STEP = 4

    def __init__(self, scheduler: Any, step_mode: StepMode, frequency: int = 1) -> None:
        if not isinstance(step_mode, LRScheduler.StepMode):
            raise TypeError(f"LRScheduler: step_mode: expected one of {[mode.name for mode in LRScheduler.StepMode]}, got {step_mode!r}")
        if not isinstance(frequency, int) or frequency < 1:
            raise ValueError(f"LRScheduler: frequency: expected an integer of at least 1, got {frequency!r}")
        self._scheduler = scheduler
        self._step_mode = step_mode
        self._frequency = frequency

    def step(self, *args: Any, **kwargs: Any) -> None:
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        return list(self._scheduler.get_last_lr())

    def state_dict(self) -> dict[Any, Any]:
        state: dict[Any, Any] = self._scheduler.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[Any, Any]) -> None:
        self._scheduler.load_state_dict(state_dict)

    def _after_batch(self, batch_idx: int, aggregation: int, epoch_len: int) -> None:
        """Called after each batch that stepped the optimizers. batch_idx: from 0, over all epochs."""
        mode, every = self._step_mode, self._frequency
        if mode is LRScheduler.StepMode.MANUAL_STEP:
            return
        if mode is LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP:
            steps = 1 if (batch_idx + 1) % every == 0 else 0
        elif mode is LRScheduler.StepMode.STEP_EVERY_BATCH:
            steps = (batch_idx + 1) // every - (batch_idx + 1 - aggregation) // every
        else:  # The epochs that end before the next optimizer step does.
            steps = (batch_idx + aggregation) // epoch_len // every - batch_idx // epoch_len // every
        for _ in range(steps):
            self._scheduler.step()
