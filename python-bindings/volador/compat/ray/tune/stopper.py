"""ray.tune.stopper: the conditions of the same names are the runtime's; stoppers of your own derive from Stopper as in Ray."""

from __future__ import annotations

import datetime
import functools
from typing import TYPE_CHECKING, Any

from volador import tune as _tune
from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable


class Stopper:
    """Base of stoppers of your own. Both methods are called for each result."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial ends."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__(trial_id, result), which returns whether the trial ends")

    def stop_all(self) -> bool:
        """Whether all trials end."""
        raise NotImplementedError(f"{type(self).__name__} has no stop_all(), which returns whether all trials end")


class _Condition(Stopper):
    """A stopper that the runtime evaluates."""

    def __init__(self, *conditions: _tune.StopCondition) -> None:
        self.conditions = conditions

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        raise InvalidArgumentError(f"stop: {type(self).__name__} is evaluated by the runtime and cannot be called; give it as stop, alone or in a CombinedStopper")

    def stop_all(self) -> bool:
        return False


class NoopStopper(_Condition):
    """Ends nothing."""

    def __init__(self) -> None:
        super().__init__()


class MaximumIterationStopper(_Condition):
    """Ends trials after max_iter results."""

    def __init__(self, max_iter: int) -> None:
        super().__init__(_tune.max_steps(max_iter))


class TimeoutStopper(_Condition):
    """Ends all trials after a time, in seconds or as a timedelta."""

    def __init__(self, timeout: float | datetime.timedelta) -> None:
        super().__init__(_tune.timeout(timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout))


class TrialPlateauStopper(_Condition):
    """Ends trials whose metric no longer changes."""

    def __init__(
        self, metric: str, std: float = 0.01, num_results: int = 4, grace_period: int = 4, metric_threshold: float | None = None, mode: str | None = None
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise InvalidArgumentError(f'TrialPlateauStopper: mode is {mode!r}; with metric_threshold expected "min" or "max"')
        super().__init__(
            _tune.trial_plateau(metric, std=std, num_results=num_results, grace_period=grace_period, metric_threshold=metric_threshold, mode=mode)
        )


class ExperimentPlateauStopper(_Condition):
    """Ends all trials when the best results are close together."""

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        super().__init__(_tune.experiment_plateau(metric, std=std, top=top, patience=patience, mode=mode))


class FunctionStopper(Stopper):
    """Ends a trial for which function(trial_id, result) is true."""

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]) -> None:
        if not callable(function):
            raise InvalidArgumentError(f"FunctionStopper: expected a function of trial_id and result, got {function!r}")
        self.function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self.function(trial_id, result))

    def stop_all(self) -> bool:
        return False


class CombinedStopper(Stopper):
    """Any of its stoppers."""

    def __init__(self, *stoppers: Stopper) -> None:
        self.stoppers = stoppers


class _Adapter(_tune.Stopper):
    """Makes Ray's calls of Volador's."""

    def __init__(self, stopper: Stopper) -> None:
        self.stopper = stopper

    def __call__(self, trial_id: str, result: dict[str, float]) -> bool:
        return self.stopper(trial_id, {**result, "trial_id": trial_id})

    def stop_all(self) -> bool:
        return self.stopper.stop_all()


def conditions_of(stop: Any) -> list[Any]:
    """Volador's conditions of a dictionary, a function, a stopper or a list of these."""
    if stop is None:
        return []
    if isinstance(stop, (list, tuple)):
        return [condition for one in stop for condition in conditions_of(one)]
    if isinstance(stop, CombinedStopper):
        return conditions_of(stop.stoppers)
    if isinstance(stop, _Condition):
        if type(stop).__call__ is not _Condition.__call__ or type(stop).stop_all is not _Condition.stop_all:
            raise InvalidArgumentError(f"stop: {type(stop).__name__} has its own methods, and the stopper that it derives from is evaluated by the runtime; derive from Stopper")
        return list(stop.conditions)
    if isinstance(stop, Stopper):
        adapter: Any = type(type(stop).__name__, (_Adapter,), {})
        return [adapter(stop)]
    if callable(stop) and not isinstance(stop, (type, _tune.Stopper)):
        return [_with_id(stop)]
    return [stop]


def _with_id(function: Callable[[str, dict[str, Any]], object]) -> Callable[[str, dict[str, float]], object]:
    def ends(trial_id: str, result: dict[str, float]) -> object:
        return function(trial_id, {**result, "trial_id": trial_id})

    return functools.update_wrapper(ends, function)


__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
