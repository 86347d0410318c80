"""ray.tune.experiment: trials as searchers, schedulers and callbacks see them."""

from __future__ import annotations

from typing import Any, ClassVar

from volador import tune as _tune


class Trial:
    """A trial of a run: trial_id, config, status, last_result. A scheduler sees the same object in all calls."""

    PENDING: ClassVar[str] = "PENDING"
    RUNNING: ClassVar[str] = "RUNNING"
    PAUSED: ClassVar[str] = "PAUSED"
    TERMINATED: ClassVar[str] = "TERMINATED"
    ERROR: ClassVar[str] = "ERROR"
    _STATUSES: ClassVar[dict[str, str]] = {"waiting": PENDING, "running": RUNNING, "paused": PAUSED, "failed": ERROR}

    def __init__(self, trial: _tune.Trial) -> None:
        self._trial = trial

    @property
    def trial_id(self) -> str:
        return self._trial.trial_id

    @property
    def config(self) -> dict[str, Any]:
        return self._trial.config

    @property
    def evaluated_params(self) -> dict[str, Any]:
        return self._trial.config

    @property
    def status(self) -> str:
        return self._STATUSES.get(self._trial.status, self.TERMINATED)

    @property
    def last_result(self) -> dict[str, float]:
        return self._trial.last_result

    @property
    def checkpoint(self) -> _tune.Checkpoint | None:
        return self._trial.checkpoint

    @property
    def local_path(self) -> str:
        return self._trial.path

    path = local_path

    def is_finished(self) -> bool:
        return self.status in (self.TERMINATED, self.ERROR)

    def __str__(self) -> str:
        return self.trial_id

    def __repr__(self) -> str:
        return f"Trial({self.trial_id}, {self.status})"


__all__ = ["Trial"]
