"""Tasks: functions that run on the cluster."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from volador import _code, _core, _future, _options, _runtime, _values

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
TaskOf = TypeVar("TaskOf", bound="Task[Any, Any]")


class Task(Generic[P, R]):
    """A function whose remote() runs it on the cluster. Calling it runs it here."""

    def __init__(self, function: Callable[P, R], options: _options.TaskOptions) -> None:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"task: {function.__qualname__} is a coroutine; a task is a plain function, a coroutine is a method of an actor")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"task: {function.__qualname__} is a generator; make it a method of an actor, whose items arrive while it runs")
        self._function = function
        self._options = options
        self._codes: dict[Any, _code.Portable] = {}  # By retry_exceptions, which travels with the function.
        self._core_options: Any = None
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> _future.Future[R]:
        """Submits the task. Does not wait; futures and references among the arguments arrive as their values.

        Raises InfeasibleError where no node could ever run it, TypeError where an argument cannot be pickled."""
        _runtime.ensure()
        retried = self._options.retry_exceptions
        if self._core_options is None:
            self._core_options = self._options.core(self._function.__qualname__)
            if retried not in self._codes:
                self._codes[retried] = _code.Portable((self._function, retried))
        arguments, futures = _future.split_arguments(args, kwargs)
        return _future.Future(
            _core.submit(self._core_options, self._codes[retried].packed(), _values.pack(arguments), futures), f"task {self._function.__qualname__}"
        )

    def options(self, **options: Any) -> Task[P, R]:
        """The same function with other options; see volador.task."""
        return self._shares_code(Task(self._function, self._options.but(options)))

    def _shares_code(self, other: TaskOf) -> TaskOf:
        """Lets another task of the same function use its pickles."""
        other._codes = self._codes
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return Task, (self._function, self._options)

    def __repr__(self) -> str:
        return f"<volador.Task {self._function.__qualname__}>"


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(**options: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(function: Any = None, /, **options: Any) -> Any:
    """Makes a function a task: @volador.task, or @volador.task(num_cpus=2, max_retries=0).

    num_cpus (default 1), num_gpus, memory (bytes), resources ({name: amount}): reserved while it runs. max_retries
    (default 3, -1 without limit): after the death of its process. retry_exceptions: True or types of exceptions after
    which it is retried as well. node, labels: where it may run. name: in messages."""
    made = _options.TaskOptions.of(options)
    if function is None:
        return lambda given: Task(given, made)
    return Task(function, made)
