"""Futures and references, and waiting for them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, cast, overload

from volador import _core, _runtime, _values
from volador.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

T = TypeVar("T")


class Ref(Generic[T]):
    """Reference to an immutable object of the object store, which lives while a reference to it does."""

    __slots__ = ("__weakref__", "_core")

    def __init__(self, core: Any) -> None:
        self._core = core

    def get(self, timeout: float | None = None) -> T:
        """The value. numpy arrays of 64 KiB and more are read in place, and are read-only.

        Raises GetTimeoutError after `timeout` seconds, ObjectLostError."""
        return cast("T", _values.result(self._core.read(timeout)))

    @property
    def arg(self) -> T:
        """This reference, for type checkers: an argument that is a reference arrives as its value."""
        return cast("T", self)

    def is_ready(self) -> bool:
        """Whether the object is on this node, or is lost."""
        return cast("bool", self._core.is_ready())

    def free(self) -> None:
        """Frees the object for all who hold a reference."""
        self._core.free()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_ref, (_values.refer(self._core, 0),)

    def __repr__(self) -> str:
        return f"<volador.Ref {'ready' if self.is_ready() else 'on its way'}>"


def _restore_ref(index: int) -> Ref[Any]:
    return Ref(_values.referred(index, 0))


class Future(Generic[T]):
    """Result of a call or task. `await` it, or call result(). Copies share the result; dropping it cancels nothing."""

    __slots__ = ("__weakref__", "_core", "_what")

    def __init__(self, core: Any, what: str) -> None:
        self._core = core
        self._what = what

    def result(self, timeout: float | None = None) -> T:
        """Waits for the value and returns it, or raises the exception of the call, with its remote traceback as cause.

        timeout: in seconds; GetTimeoutError after it. The call goes on."""
        return cast("T", _values.result(self._core.take(timeout)))

    get = result

    @property
    def arg(self) -> T:
        """This future, for type checkers: an argument that is a future arrives as its value."""
        return cast("T", self)

    def done(self) -> bool:
        """Whether the call has ended."""
        return cast("bool", self._core.is_ready())

    def cancel(self, *, force: bool = False) -> None:
        """Requests the end of the call, as volador.cancel()."""
        self._core.cancel(force)

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Calls callback(self) once the call has ended, on a thread of its own that serves all callbacks."""
        _callbacks().add(self._core, lambda: callback(self))

    def future(self) -> concurrent.futures.Future[T]:
        """A concurrent.futures.Future of the same result."""
        made: concurrent.futures.Future[T] = concurrent.futures.Future()

        def finish(_: Future[T]) -> None:
            if not made.set_running_or_notify_cancel():
                return
            try:
                made.set_result(self.result())
            except BaseException as error:
                made.set_exception(error)

        self.add_done_callback(finish)
        return made

    def __await__(self) -> Generator[Any, None, T]:
        if not self._core.is_ready():
            yield from _Loop.running().wait(self._core)
        return self.result()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot wait for a call of this one: its value travels as an object.
        return put(self.result()).__reduce__()

    def __repr__(self) -> str:
        return f"<volador.Future of {self._what}: {'ended' if self.done() else 'not ended'}>"


class Stream(Generic[T]):
    """Items of a generator that runs in an actor, as they arrive: `for` or `async for`. Ending early ends the generator.

    The generator waits while this end is more than 1 MiB or 10,000 items behind."""

    __slots__ = ("_core", "_what")

    def __init__(self, core: Any, what: str) -> None:
        self._core = core
        self._what = what

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self, timeout: float | None = None) -> T:
        """Waits for the next item. Raises StopIteration after the last, the generator's exception, GetTimeoutError."""
        return cast("T", _values.result(self._core.next(timeout)))

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        def step() -> tuple[bool, Any]:
            try:
                return True, self.next()
            except StopIteration:
                return False, None

        found, item = await asyncio.get_running_loop().run_in_executor(None, step)
        if not found:
            raise StopAsyncIteration
        return cast("T", item)

    def close(self) -> None:
        """Ends the generator. Repeated: no effect."""
        self._core.close()

    def __repr__(self) -> str:
        return f"<volador.Stream of {self._what}>"


Waitable = Union[Future[T], Ref[T]]


class _Loop:
    """Futures that an asyncio loop waits for; one descriptor wakes it for all of them."""

    _loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Loop] = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._completions = _core.Completions()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._next = 0
        loop.add_reader(self._completions.fd, self._wake)

    @classmethod
    def running(cls) -> _Loop:
        loop = asyncio.get_running_loop()
        found = cls._loops.get(loop)
        if found is None:
            found = cls._loops[loop] = cls(loop)
        return found

    def wait(self, core: Any) -> Generator[Any, None, None]:
        self._next += 1
        token = self._next
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[token] = waiter
        self._completions.add(core, token)
        try:
            yield from waiter
        finally:
            self._waiters.pop(token, None)

    def _wake(self) -> None:
        for token in self._completions.take():
            waiter = self._waiters.get(token)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)


class _Callbacks:
    """The thread that calls the callbacks of futures."""

    def __init__(self) -> None:
        import select
        import threading

        self._completions = _core.Completions()
        self._calls: dict[int, Callable[[], object]] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._select = select.select
        threading.Thread(target=self._serve, name="volador-callbacks", daemon=True).start()

    def add(self, core: Any, call: Callable[[], object]) -> None:
        with self._lock:
            self._next += 1
            token = self._next
            self._calls[token] = call
        self._completions.add(core, token)

    def _serve(self) -> None:
        while True:
            self._select([self._completions.fd], [], [])
            for token in self._completions.take():
                with self._lock:
                    call = self._calls.pop(token)
                try:
                    call()
                except Exception:
                    sys.excepthook(*sys.exc_info())  # As concurrent.futures: a callback's exception ends nothing.
                del call  # It may hold the last handle on an actor.


_the_callbacks: _Callbacks | None = None


def _callbacks() -> _Callbacks:
    global _the_callbacks
    if _the_callbacks is None:
        _the_callbacks = _Callbacks()
    return _the_callbacks


def put(value: T) -> Ref[T]:
    """Puts a value into this node's object store; readers on the node copy no large array.

    Raises StoreFullError, UnavailableError."""
    if isinstance(value, (Ref, Future)):
        raise TypeError(f"put: expected a value, got a {type(value).__name__}: pass it on as it is")
    _runtime.ensure()
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
    return Ref(_core.put(_values.pack(value), type(value).__qualname__, place))


@overload
def get(what: Waitable[T], *, timeout: float | None = None) -> T: ...
@overload
def get(what: Sequence[Waitable[T]], *, timeout: float | None = None) -> list[T]: ...
def get(what: Any, *, timeout: float | None = None) -> Any:
    """The value of a future or reference, or the values of a list of them, in its order.

    Raises the exception of the first that failed; GetTimeoutError if not all came within `timeout` seconds."""
    if isinstance(what, Future):
        return what.result(timeout)
    if isinstance(what, Ref):
        return what.get(timeout)
    if isinstance(what, (str, bytes)) or not hasattr(what, "__iter__"):
        raise TypeError(f"get: expected a Future, a Ref, or a list of them, got {type(what).__name__}")
    things = list(what)
    _check(things, "get")
    if timeout is not None:
        ready = _core.wait([thing._core for thing in things], len(things), timeout)
        if len(ready) < len(things):
            raise GetTimeoutError(
                f"{len(ready)} of {len(things)} results came within {timeout:g} s; what makes the others goes on: wait longer, or end it by volador.cancel()"
            )
    return [thing.get() for thing in things]


def wait(
    things: Iterable[Waitable[T]], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Waitable[T]], list[Waitable[T]]]:
    """Waits until `num_returns` are ready or `timeout` seconds have passed: (ready, pending), each in the given order.

    At most num_returns are returned as ready. A failed future is ready. fetch_local: kept for scripts that give it."""
    all_things = list(things)
    _check(all_things, "wait")
    if not 0 < num_returns <= len(all_things):
        raise ValueError(f"wait: num_returns is {num_returns}; expected 1 to {len(all_things)}, the number of things to wait for")
    ready = set(_core.wait([thing._core for thing in all_things], num_returns, timeout))
    return (
        [thing for index, thing in enumerate(all_things) if index in ready],
        [thing for index, thing in enumerate(all_things) if index not in ready],
    )


def cancel(future: Future[Any], *, force: bool = False) -> None:
    """Requests the end of a call or task: a queued one is not started; a running one sees volador.cancel_requested().

    force: ends the process of a running task. The future raises CancelledError unless the result came first."""
    if not isinstance(future, Future):
        raise TypeError(f"cancel: expected a Future, got {type(future).__name__}")
    future.cancel(force=force)


def as_completed(things: Iterable[Waitable[T]], *, timeout: float | None = None) -> Generator[Waitable[T], None, None]:
    """Yields each as soon as it is ready. GetTimeoutError once `timeout` seconds have passed since the first."""
    import time

    deadline = None if timeout is None else time.monotonic() + timeout
    pending = list(things)
    while pending:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, pending = wait(pending, timeout=left)
        if not ready:
            raise GetTimeoutError(f"as_completed: {len(pending)} are still not ready after {timeout:g} s")
        yield from ready


def _check(things: list[Any], function: str) -> None:
    for index, thing in enumerate(things):
        if not isinstance(thing, (Future, Ref)):
            raise TypeError(f"{function}: expected Futures and Refs, got {type(thing).__name__} at index {index}")


def split_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """Replaces futures and references among the arguments by marks; returns the arguments and the futures' cores."""
    futures: list[Any] = []

    def mark(value: Any) -> Any:
        if type(value) is Future:
            futures.append(value._core)
            return Awaited(len(futures) - 1)
        if type(value) is Ref:
            return Stored(value)
        return value

    if not any(type(value) in (Future, Ref) for value in (*args, *kwargs.values())):
        return (args, kwargs), futures
    return (tuple(mark(value) for value in args), {key: mark(value) for key, value in kwargs.items()}), futures


class Awaited:
    """Stands for an argument that was a future; its value travels beside the arguments."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return Awaited, (self.index,)


class Stored:
    """Stands for an argument that was a reference; the callee gets its value."""

    __slots__ = ("ref",)

    def __init__(self, ref: Ref[Any]) -> None:
        self.ref = ref

    def __reduce__(self) -> tuple[Any, ...]:
        return Stored, (self.ref,)


def join_arguments(arguments: Any, awaited: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inverse of split_arguments(), at the callee. Waits for stored arguments."""
    args, kwargs = arguments

    def value_of(value: Any) -> Any:
        if type(value) is Awaited:
            return _values.result(awaited[value.index])
        if type(value) is Stored:
            return value.ref.get()
        return value

    if not any(type(value) in (Awaited, Stored) for value in (*args, *kwargs.values())):
        return args, kwargs
    return tuple(value_of(value) for value in args), {key: value_of(value) for key, value in kwargs.items()}
