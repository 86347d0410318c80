"""ray.util.ActorPool."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import volador

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class ActorPool:
    """Gives calls to the actor that is idle. fn(actor, value) starts a call and returns its future."""

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle = list(actors)
        self._busy: dict[volador.Future[Any], tuple[int, Any]] = {}  # By future: its number and its actor.
        self._by_number: dict[int, volador.Future[Any]] = {}
        self._next_number = 0
        self._next_result = 0
        self._pending_submits: deque[tuple[Callable[[Any, Any], volador.Future[Any]], Any]] = deque()

    def submit(self, fn: Callable[[Any, Any], Any], value: Any) -> None:
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        future = fn(actor, value)
        self._busy[future] = (self._next_number, actor)
        self._by_number[self._next_number] = future
        self._next_number += 1

    def map(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Results in the order of the values."""
        self._drop_results()
        for value in values:
            self.submit(fn, value)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield self.get_next()

        return results()

    def map_unordered(self, fn: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        """Results as they come."""
        self._drop_results()
        for value in values:
            self.submit(fn, value)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield self.get_next_unordered()

        return results()

    def has_next(self) -> bool:
        return bool(self._busy) or bool(self._pending_submits)

    def has_free(self) -> bool:
        return bool(self._idle) and not self._pending_submits

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The result of the earliest submission that was not taken yet. TimeoutError after `timeout` seconds."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._next_result >= self._next_number:
            raise ValueError("It is not allowed to call get_next() after get_next_unordered().")
        future = self._by_number[self._next_result]
        if not volador.wait([future], timeout=timeout)[0]:
            if not ignore_if_timedout:
                raise TimeoutError("Timed out waiting for result")
            return None
        self._next_result += 1
        return self._take(future)

    def get_next_unordered(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result of any submission. TimeoutError after `timeout` seconds."""
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = volador.wait(list(self._busy), timeout=timeout)
        if not ready:
            if not ignore_if_timedout:
                raise TimeoutError("Timed out waiting for result")
            return None
        future = cast("volador.Future[Any]", ready[0])
        self._next_result = max(self._next_result, self._busy[future][0] + 1)
        return self._take(future)

    def _take(self, future: Any) -> Any:
        number, actor = self._busy.pop(future)
        del self._by_number[number]
        self._return(actor)
        return volador.get(future)

    def _return(self, actor: Any) -> None:
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())

    def push(self, actor: Any) -> None:
        if actor in self._idle or any(actor == busy for _, busy in self._busy.values()):
            raise ValueError("Actor already belongs to current ActorPool")
        self._return(actor)

    def pop_idle(self) -> Any:
        return self._idle.pop() if self.has_free() else None

    def _drop_results(self) -> None:
        # As Ray: map() ignores the results of earlier submissions.
        while self.has_next():
            try:
                self.get_next_unordered(timeout=0)
            except TimeoutError:
                break
