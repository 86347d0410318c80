"""Stop conditions: those of the runtime (tune/loop/stopper.h), and functions and objects of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from volador import _core
from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias


class Stopper:
    """Base of stop conditions of your own, given to run(stop=…). One run uses an object, from one thread.

    In a resumed run it is told of all results of the journal again, and must return what it returned then."""

    def __call__(self, trial_id: str, result: dict[str, float]) -> bool:
        """Called for each report: whether the trial ends, as finished."""
        return False

    def stop_all(self) -> bool:
        """Called after each report: whether all trials end. They save checkpoints if they can, and run() returns."""
        return False


class StopCondition:
    """A condition that the runtime evaluates."""

    def __init__(self, core: Any, text: str) -> None:
        self._core = core
        self._text = text

    def __repr__(self) -> str:
        return self._text


if TYPE_CHECKING:
    OneStop: TypeAlias = Mapping[str, float] | Callable[[str, dict[str, float]], object] | Stopper | StopCondition
    Stop: TypeAlias = OneStop | Sequence[OneStop]


def at_least(metric: str, value: float) -> StopCondition:
    """Ends a trial whose metric is at least the value."""
    return StopCondition(_core.stop_at_least(metric, value), f"at_least({metric!r}, {value!r})")


def at_most(metric: str, value: float) -> StopCondition:
    """Ends a trial whose metric is at most the value."""
    return StopCondition(_core.stop_at_most(metric, value), f"at_most({metric!r}, {value!r})")


def max_steps(steps: int) -> StopCondition:
    """Ends a trial after so many reports."""
    return StopCondition(_core.stop_max_steps(steps), f"max_steps({steps!r})")


def max_time(seconds: float) -> StopCondition:
    """Ends a trial whose steps took so long over all its attempts; checked after each report."""
    return StopCondition(_core.stop_max_time(seconds), f"max_time({seconds!r})")


def timeout(seconds: float) -> StopCondition:
    """Ends all trials when the run takes so long; the same as time_budget, and the shorter of the two applies."""
    return StopCondition(_core.stop_timeout(seconds), f"timeout({seconds!r})")


def stop_on_nan(metric: str | None = None, *, tolerated: int = 0, infinities: bool = True) -> StopCondition:
    """Ends a diverged trial, as stopped. metric: by default that of the run. tolerated: how many in a row are allowed."""
    return StopCondition(_core.stop_on_nan(metric or "", tolerated, infinities), f"stop_on_nan({metric!r}, tolerated={tolerated}, infinities={infinities})")


def trial_plateau(
    metric: str | None = None, *, std: float = 0.01, num_results: int = 4, grace_period: int = 4, metric_threshold: float | None = None, mode: str | None = None
) -> StopCondition:
    """Ends a trial whose last num_results results have a standard deviation below std, from grace_period results on.

    metric and mode: by default those of the run. metric_threshold: only where the last result is at least as good."""
    core = _core.stop_trial_plateau(metric or "", std, num_results, grace_period, metric_threshold, mode)
    return StopCondition(core, f"trial_plateau({metric!r}, std={std}, num_results={num_results}, grace_period={grace_period}, metric_threshold={metric_threshold})")


def experiment_plateau(metric: str | None = None, *, std: float = 0.001, top: int = 10, patience: int = 0, mode: str | None = None) -> StopCondition:
    """Ends all trials when the best `top` results of all have a standard deviation of at most std, for patience results more."""
    core = _core.stop_experiment_plateau(metric or "", std, top, patience, mode)
    return StopCondition(core, f"experiment_plateau({metric!r}, std={std}, top={top}, patience={patience})")


def conditions_of(stop: Stop | None) -> tuple[list[Any], list[Any]]:
    """The runtime's conditions, and functions and stoppers. Raises InvalidArgumentError."""
    if stop is None:
        return [], []
    core: list[Any] = []
    own: list[Any] = []
    for one in stop if isinstance(stop, (list, tuple)) else [stop]:
        if isinstance(one, StopCondition):
            core.append(one._core)
        elif hasattr(one, "items"):
            core += [_threshold(metric, value) for metric, value in one.items()]
        elif isinstance(one, type):
            raise InvalidArgumentError(f"stop: the class {one.__name__} was given; expected an object, {one.__name__}(…)")
        elif callable(one):
            own.append(one)
        else:
            raise InvalidArgumentError(
                f"stop: expected thresholds of metrics, as {{'accuracy': 0.99}}, a condition, as tune.max_steps(100), a function of trial_id and result, "
                f"a tune.Stopper, or a list of these, got {one!r}"
            )
    return core, own


def _threshold(metric: Any, value: Any) -> Any:
    if not isinstance(metric, str):
        raise InvalidArgumentError(f"stop: {metric!r} is a {type(metric).__name__}; expected the name of a metric")
    try:
        return _core.stop_threshold(metric, float(value))
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"stop: the threshold of {metric} is {value!r}; expected a number, or give a function of trial_id and result as stop") from None
