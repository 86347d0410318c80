"""optuna.pruners."""

from __future__ import annotations

from volador.tune import MedianPruner as _MedianPruner

__all__ = ["MedianPruner", "NopPruner"]


class MedianPruner:
    def __init__(self, n_startup_trials: int = 5, n_warmup_steps: int = 0, interval_steps: int = 1) -> None:
        self.core: _MedianPruner | None = _MedianPruner(n_startup_trials, n_warmup_steps)


class NopPruner:
    core = None
