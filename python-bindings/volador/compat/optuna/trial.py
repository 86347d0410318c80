"""optuna.trial."""

from __future__ import annotations

import datetime
import enum
from typing import TYPE_CHECKING, Any

from volador.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from volador.tune import StudyTrial

__all__ = ["FrozenTrial", "Trial", "TrialState"]


class TrialState(enum.Enum):
    RUNNING = 0
    COMPLETE = 1
    PRUNED = 2
    FAIL = 3

    def is_finished(self) -> bool:
        return self is not TrialState.RUNNING


_STATES = {"running": TrialState.RUNNING, "complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


class FrozenTrial:
    """A trial as its study knows it."""

    def __init__(self, core: StudyTrial) -> None:
        self._core = core

    @property
    def number(self) -> int:
        return self._core.number

    @property
    def params(self) -> dict[str, Any]:
        return self._core.params

    @property
    def user_attrs(self) -> dict[str, Any]:
        return self._core.user_attrs

    @property
    def value(self) -> float | None:
        return self._core.value

    @property
    def values(self) -> list[float] | None:
        return self._core.values

    @property
    def state(self) -> TrialState:
        return _STATES[self._core.state]

    @property
    def intermediate_values(self) -> dict[int, float]:
        return self._core.intermediate

    @property
    def duration(self) -> datetime.timedelta:
        return datetime.timedelta(seconds=self._core.duration)

    def __repr__(self) -> str:
        return f"FrozenTrial(number={self.number}, state={self.state}, values={self.values}, params={self.params})"


class Trial(FrozenTrial):
    """A trial that runs."""

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> float:
        return self._core.suggest_float(name, low, high, step=step, log=log)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return self._core.suggest_int(name, low, high, step=step, log=log)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._core.suggest_categorical(name, choices)

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        return self.suggest_float(name, low, high, log=True)

    def suggest_discrete_uniform(self, name: str, low: float, high: float, q: float) -> float:
        return self.suggest_float(name, low, high, step=q)

    def report(self, value: float, step: int) -> None:
        self._core.report(value, step)

    def should_prune(self) -> bool:
        return self._core.should_prune()

    def set_user_attr(self, key: str, value: Any) -> None:
        self._core.set_user_attr(key, value)

    def set_system_attr(self, key: str, value: Any) -> None:
        raise InvalidArgumentError("Trial.set_system_attr is not there; use set_user_attr")


class Objective:
    """A function of a Trial as one of volador.tune.StudyTrial."""

    def __init__(self, function: Callable[[Trial], Any]) -> None:
        self._function = function
        self.__qualname__ = str(getattr(function, "__qualname__", "objective"))

    def __call__(self, core: StudyTrial) -> Any:
        return self._function(Trial(core))
