"""How metrics of batches become one."""

from __future__ import annotations

import abc
import enum
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from volador.compat.determined import errors

if TYPE_CHECKING:
    from collections.abc import Callable


class Reducer(enum.Enum):
    """Of evaluate_batch()'s metrics: over the batches of a process, then over the processes. AVG weights those by batches."""

    AVG = 1
    SUM = 2
    MAX = 3
    MIN = 4


def reduce_values(reducer: Reducer | Callable[[Any], Any], values: Any, counts: list[int] | None = None) -> Any:
    """values: (n, …), one for each batch, or each process that had counts[i] batches."""
    if reducer is Reducer.AVG:
        return np.average(values, weights=counts)
    if isinstance(reducer, Reducer):
        functions: dict[Reducer, Callable[[Any], Any]] = {Reducer.SUM: np.sum, Reducer.MAX: np.max, Reducer.MIN: np.min}
        return functions[reducer](values)
    return reducer(values)


def reducers_of(given: Any, names: Any) -> dict[str, Any]:
    """evaluation_reducer()'s result for each metric. InvalidExperimentException: a name too few or too many, or not a reducer."""
    reducers = given if isinstance(given, dict) else dict.fromkeys(names, given)
    if set(reducers) != set(names):
        raise errors.InvalidExperimentException(
            f"evaluation_reducer: expected one reducer, or one for each of the metrics {sorted(names)}, got {sorted(reducers)}; add or remove names"
        )
    for name, reducer in reducers.items():
        if not isinstance(reducer, Reducer) and not callable(reducer):
            raise errors.InvalidExperimentException(f"evaluation_reducer: {name}: expected a pytorch.Reducer or a function, got {reducer!r}")
    return reducers


class MetricReducer(abc.ABC):
    """A metric that is not a reduction of the batches' metrics. The trial calls methods of its own on it in each batch.

    In a report or a validation: reset() before, then per_slot_reduce() in each process, then cross_slot_reduce() of all their results."""

    @abc.abstractmethod
    def reset(self) -> None: ...

    @abc.abstractmethod
    def per_slot_reduce(self) -> Any:
        """What this process adds; it is pickled."""

    @abc.abstractmethod
    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        """The metric, or metrics by name if the reducer was wrapped without a name, from the processes' results by rank."""


class SimpleMetricReducer(MetricReducer):
    """Calls a function with all values that update() got, in the order of one process: values of the ranks are interleaved."""

    _MISSING = object()

    def __init__(self, fn: Callable[[list[Any]], Any]) -> None:
        self.fn = fn
        self.values: list[Any] = []

    def reset(self) -> None:
        self.values = []

    def update(self, value: Any) -> None:
        self.values.append(value)

    def per_slot_reduce(self) -> Any:
        return self.values

    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        rounds = itertools.zip_longest(*per_slot_metrics, fillvalue=self._MISSING)
        return self.fn([value for each in rounds for value in each if value is not self._MISSING])


class _Wrapped:
    def __init__(self, reducer: MetricReducer, name: str | None, for_training: bool, for_validation: bool) -> None:
        self.reducer = reducer
        self.name = name
        self.for_training = for_training
        self.for_validation = for_validation

    def call(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self.reducer, method)(*args)
        except Exception as error:
            raise ValueError(f"reducer {type(self.reducer).__name__} of metric {self.name!r}: {method}() raised {type(error).__name__}: {error}") from error


class ReducerContext:
    """The reducers of a trial. allgather: one object of each process, by rank."""

    def __init__(self, allgather: Callable[[Any], list[Any]] | None = None) -> None:
        self._wrapped_reducers: list[_Wrapped] = []
        self._allgather = allgather or (lambda value: [value])

    def wrap_reducer(self, reducer: Any, name: str | None = None, for_training: bool = True, for_validation: bool = True) -> Any:
        """Registers a MetricReducer, or a function of all values, and returns what the trial calls update() on.

        name: of the metric; None: the reducer gives a dictionary of metrics. AssertionError: wrapped before, or neither of the two."""
        if any(wrapped.reducer is reducer for wrapped in self._wrapped_reducers):
            raise AssertionError(f"wrap_reducer: this {type(reducer).__name__} was wrapped before; make one object for each call")
        if not isinstance(reducer, MetricReducer):
            if not callable(reducer):
                raise AssertionError(f"wrap_reducer: expected a function or a pytorch.MetricReducer, got a {type(reducer).__name__}")
            reducer = SimpleMetricReducer(reducer)
        self._wrapped_reducers.append(_Wrapped(reducer, name, for_training, for_validation))
        return reducer

    def reset_reducers(self) -> None:
        for wrapped in self._wrapped_reducers:
            wrapped.call("reset")

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """All processes call it together."""
        chosen = [wrapped for wrapped in self._wrapped_reducers if (wrapped.for_training if for_training else wrapped.for_validation)]
        if not chosen:
            return {}
        gathered = self._allgather([wrapped.call("per_slot_reduce") for wrapped in chosen])
        metrics: dict[str, Any] = {}
        for index, wrapped in enumerate(chosen):
            value = wrapped.call("cross_slot_reduce", [each[index] for each in gathered])
            if wrapped.name is None and not isinstance(value, dict):
                raise AssertionError(
                    f"reducer {type(wrapped.reducer).__name__}: expected a dictionary of metrics, got a {type(value).__name__}; pass name=… to wrap_reducer() for one metric"
                )
            if wrapped.name is not None and isinstance(value, dict):
                raise AssertionError(
                    f"reducer {type(wrapped.reducer).__name__} of metric {wrapped.name!r}: got a dictionary; leave name out in wrap_reducer() for several metrics"
                )
            metrics.update(value if wrapped.name is None else {wrapped.name: value})
        return metrics
