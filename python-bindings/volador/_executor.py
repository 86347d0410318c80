"""The standard library's executor on tasks of the cluster."""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from volador import _options, _runtime, _task

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


class Executor(concurrent.futures.Executor):
    """concurrent.futures.Executor whose calls are tasks: `with volador.Executor() as pool: pool.map(f, values)`.

    max_workers: calls under way at once; None: as many as the cluster can run. options: of the tasks, see volador.task."""

    def __init__(self, max_workers: int | None = None, **options: Any) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError(f"Executor: max_workers is {max_workers}; expected 1 or more, or None")
        _runtime.ensure()
        self._max_workers = max_workers
        self._options = _options.TaskOptions.of(options)
        self._tasks: dict[Any, _task.Task[..., Any]] = {}
        self._lock = threading.Lock()
        self._waiting: deque[tuple[concurrent.futures.Future[Any], Any, tuple[Any, ...], dict[str, Any]]] = deque()
        self._under_way = 0
        self._ended = threading.Condition(self._lock)
        self._is_shut_down = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> concurrent.futures.Future[R]:
        made: concurrent.futures.Future[R] = concurrent.futures.Future()
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((made, fn, args, kwargs))
        self._start()
        return made

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            self._is_shut_down = True
            cancelled = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for future, *_ in cancelled:
            future.cancel()
        if wait:
            with self._lock:
                self._ended.wait_for(lambda: not self._waiting and self._under_way == 0)

    def _start(self) -> None:
        """Starts waiting calls while there is room."""
        while True:
            with self._lock:
                if not self._waiting or (self._max_workers is not None and self._under_way >= self._max_workers):
                    return
                made, fn, args, kwargs = self._waiting.popleft()
                if not made.set_running_or_notify_cancel():
                    continue
                self._under_way += 1
            try:
                task = self._task_of(fn).remote(*args, **kwargs)
            except BaseException as error:
                made.set_exception(error)
                self._end()
                continue
            task.add_done_callback(lambda ended, made=made: self._finish(ended, made))  # type: ignore[misc]

    def _finish(self, task: Any, made: concurrent.futures.Future[Any]) -> None:
        try:
            made.set_result(task.result())
        except BaseException as error:
            made.set_exception(error)
        self._end()
        self._start()

    def _end(self) -> None:
        with self._lock:
            self._under_way -= 1
            self._ended.notify_all()

    def _task_of(self, fn: Any) -> _task.Task[..., Any]:
        # A task is pickled once for all its calls.
        found = self._tasks.get(fn)
        if found is None:
            found = _task.Task(fn._function if isinstance(fn, _task.Task) else fn, self._options)
            if len(self._tasks) < 256:
                self._tasks[fn] = found
        return found
