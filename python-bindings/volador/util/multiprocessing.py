"""multiprocessing.Pool on actors: `from volador.util.multiprocessing import Pool`."""

from __future__ import annotations

import itertools
import queue
import threading
from multiprocessing import TimeoutError
from typing import TYPE_CHECKING, Any, cast

import volador
from volador import _runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class _Worker(volador.Actor):
    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def run(self, calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]) -> list[tuple[bool, Any]]:
        """Each call's result, or its exception; the calls of a chunk after an exception run as well."""
        outcomes: list[tuple[bool, Any]] = []
        for function, args, kwargs in calls:
            try:
                outcomes.append((True, function(*args, **kwargs)))
            except Exception as error:
                outcomes.append((False, error))
        return outcomes


class AsyncResult:
    """Result of an _async method."""

    def __init__(self, callback: Callable[[Any], Any] | None, error_callback: Callable[[BaseException], Any] | None) -> None:
        self._ended = threading.Event()
        self._callback = callback
        self._error_callback = error_callback
        self._value: Any = None
        self._error: BaseException | None = None

    def _set(self, value: Any, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self._ended.set()
        if error is None and self._callback is not None:
            self._callback(value)
        if error is not None and self._error_callback is not None:
            self._error_callback(error)

    def ready(self) -> bool:
        return self._ended.is_set()

    def successful(self) -> bool:
        if not self.ready():
            raise ValueError("the result is not ready")
        return self._error is None

    def wait(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def get(self, timeout: float | None = None) -> Any:
        """The value, or raises the exception; multiprocessing.TimeoutError after `timeout` seconds."""
        if not self._ended.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._value


class Pool:
    """processes: actors, by default one for each CPU of the cluster. initializer(*initargs) runs in each. actor_options:
    options of the actors, see volador.Actor (default num_cpus=1)."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        actor_options: dict[str, Any] | None = None,
    ) -> None:
        _runtime.ensure()
        count = processes if processes is not None else max(1, int(volador.cluster_resources().get("cpus", 1)))
        if count < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None:
            raise ValueError("Pool: maxtasksperchild is not there; actors live as long as the pool")
        make = _Worker.options(**{"num_cpus": 1, **(actor_options or {})})
        given = tuple(initargs)
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._workers = [make.remote(initializer, given) for _ in range(count)]
        for worker in self._workers:
            self._idle.put(worker)
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._waiting: queue.SimpleQueue[tuple[list[Any], Callable[[Any, BaseException | None], None]]] = queue.SimpleQueue()
        self._under_way = 0
        self._is_closed = False

    # ---- calls ----

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: dict[str, Any] | None = None) -> Any:
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: dict[str, Any] | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        made = AsyncResult(callback, error_callback)

        def finish(outcomes: Any, error: BaseException | None) -> None:
            if error is None and not outcomes[0][0]:
                error = outcomes[0][1]
            made._set(None if error else outcomes[0][1], error)

        self._put([(func, tuple(args), kwds or {})], finish)
        return made

    def map(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        return cast("list[Any]", self.map_async(func, iterable, chunksize).get())

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None) -> list[Any]:
        return cast("list[Any]", self.starmap_async(func, iterable, chunksize).get())

    def map_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        return self._all(func, [(value,) for value in iterable], chunksize, callback, error_callback)

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        error_callback: Callable[[BaseException], Any] | None = None,
    ) -> AsyncResult:
        return self._all(func, [tuple(values) for values in iterable], chunksize, callback, error_callback)

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """Results in order, as they come."""
        chunks = [self._chunk_async(func, chunk) for chunk in _chunks(((value,) for value in iterable), chunksize)]
        return (value for chunk in chunks for value in _values_of(chunk.get()))

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """Results as they come."""
        ended: queue.SimpleQueue[AsyncResult] = queue.SimpleQueue()
        count = 0
        for chunk in _chunks(((value,) for value in iterable), chunksize):
            made = AsyncResult(None, None)

            def finish(outcomes: Any, error: BaseException | None, made: AsyncResult = made) -> None:
                made._set(outcomes, error)
                ended.put(made)

            self._put([(func, args, {}) for args in chunk], finish)
            count += 1
        return (value for _ in range(count) for value in _values_of(ended.get().get()))

    # ---- the end ----

    def close(self) -> None:
        """No more calls; those under way go on."""
        self._is_closed = True

    def terminate(self) -> None:
        """Ends the actors, and what they run."""
        self._is_closed = True
        for worker in self._workers:
            volador.kill(worker)

    def join(self) -> None:
        """Waits until all calls have ended, after close() or terminate()."""
        if not self._is_closed:
            raise ValueError("Pool is still running")
        with self._lock:
            self._ended.wait_for(lambda: self._under_way == 0)
        self._workers.clear()
        while not self._idle.empty():
            self._idle.get()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    # ---- dispatch: each chunk goes to an idle worker ----

    def _all(self, func: Any, arguments: list[tuple[Any, ...]], chunksize: int | None, callback: Any, error_callback: Any) -> AsyncResult:
        made = AsyncResult(callback, error_callback)
        size = chunksize or max(1, -(-len(arguments) // (4 * max(1, len(self._workers)))))
        chunks = list(_chunks(iter(arguments), size))
        outcomes: list[Any] = [None] * len(chunks)
        left = itertools.count(len(chunks) - 1, -1)
        if not chunks:
            made._set([], None)
        for index, chunk in enumerate(chunks):

            def finish(result: Any, error: BaseException | None, index: int = index) -> None:
                outcomes[index] = [(False, error)] if error is not None else result
                if next(left) > 0:
                    return
                failed = next((each[1] for one in outcomes for each in one if not each[0]), None)
                made._set(None if failed else [each[1] for one in outcomes for each in one], failed)

            self._put([(func, args, {}) for args in chunk], finish)
        return made

    def _chunk_async(self, func: Any, chunk: list[tuple[Any, ...]]) -> AsyncResult:
        made = AsyncResult(None, None)
        self._put([(func, args, {}) for args in chunk], made._set)
        return made

    def _put(self, calls: list[Any], finish: Callable[[Any, BaseException | None], None]) -> None:
        if self._is_closed:
            raise ValueError("Pool not running")
        with self._lock:
            self._under_way += 1
        self._waiting.put((calls, finish))
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._waiting.empty() or self._idle.empty():
                return
            worker, (calls, finish) = self._idle.get(), self._waiting.get()
        try:
            future = worker.run.remote(calls)
        except BaseException as error:
            self._end(worker, finish, None, error)
            return

        def ended(one: Any) -> None:
            try:
                outcomes, error = one.result(), None
            except BaseException as raised:
                outcomes, error = None, raised
            self._end(worker, finish, outcomes, error)

        future.add_done_callback(ended)

    def _end(self, worker: Any, finish: Any, outcomes: Any, error: BaseException | None) -> None:
        self._idle.put(worker)
        try:
            finish(outcomes, error)
        finally:
            with self._lock:
                self._under_way -= 1
                self._ended.notify_all()
            self._start()


def _chunks(values: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(itertools.islice(values, size)):
        yield chunk


def _values_of(outcomes: list[tuple[bool, Any]]) -> Iterator[Any]:
    for good, value in outcomes:
        if not good:
            raise value
        yield value


__all__ = ["AsyncResult", "Pool", "TimeoutError"]
