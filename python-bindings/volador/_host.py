"""Inside hosts: actors of Python classes, and tasks. Called by the extension."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import os
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

from volador import _code, _core, _debug, _future, _stacks, _values
from volador.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Generator

# Read by the libraries of numpy and torch when they are loaded.
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_set_for_template: list[str] = []


def preload(modules: str) -> None:
    """In a template: imports modules for its hosts. They get one thread, so that the template has none to fork."""
    gc.disable()
    for name in _THREADS:
        if name not in os.environ:
            os.environ[name] = "1"
            _set_for_template.append(name)
    for name in filter(None, modules.split(",")):
        with contextlib.suppress(ImportError):  # The code that needs it says so.
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # Children do not copy pages because the collector looked at them.


def prepare(environment: dict[bytes, bytes]) -> None:
    """Before the first Python code of a host: what the runtime set in the process, and what must differ between hosts."""
    gc.enable()
    for raw in environment.items():
        name, value = os.fsdecode(raw[0]), os.fsdecode(raw[1])
        if os.environ.get(name) != value:
            os.environ[name] = value
    for name in list(os.environ):
        if os.fsencode(name) not in environment:
            del os.environ[name]
    for name in _set_for_template:
        os.environ.pop(name, None)
    _set_threads(_core.granted_threads())
    _stacks.prepare()
    _debug.install()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)


def _set_threads(count: int) -> None:
    """Gives numpy and torch as many threads as the actor or task has CPUs, unless the user says otherwise."""
    unset = [name for name in _THREADS if name not in os.environ]
    for name in unset:
        os.environ[name] = str(count)
    if "OMP_NUM_THREADS" in unset and (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(count)
    if "OPENBLAS_NUM_THREADS" in unset and "numpy" in sys.modules:
        for library in _loaded_openblas():
            for name in ("openblas_set_num_threads", "scipy_openblas_set_num_threads"):
                for suffix in ("", "64_", "_64"):
                    if hasattr(library, name + suffix):
                        getattr(library, name + suffix)(count)


def _loaded_openblas() -> list[ctypes.CDLL]:
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line}
    return [ctypes.CDLL(path) for path in paths]


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


# ---- actors ----


def methods_of(kind: type) -> dict[str, bool]:
    """Names of the methods that can be called from elsewhere, and whether each is a generator."""
    members = inspect.getmembers(kind, callable)
    for name, member in members:
        if inspect.isasyncgenfunction(member):
            raise TypeError(f"{kind.__qualname__}.{name} is an asynchronous generator; an actor streams by a generator: def instead of async def")
    return {name: inspect.isgeneratorfunction(member) for name, member in members if not name.startswith("__") or name == "__call__"}


def load_class(packed: _values.Packed) -> tuple[type, list[str], bool, list[str]]:
    """The class, the names of its methods, whether it saves and loads checkpoints, the names of its generators."""
    kind = _code.unpack(packed)
    methods = methods_of(kind)
    plain = [name for name, streams in methods.items() if not streams]
    saves = hasattr(kind, "save_checkpoint") and hasattr(kind, "load_checkpoint")
    return kind, [*plain, "__volador_ready__"], saves, [name for name, streams in methods.items() if streams]


def construct(kind: type, packed: _values.Packed) -> Instance:
    args, kwargs = _future.join_arguments(_values.unpack(packed), [])
    return Instance(kind(*args, **kwargs))


class Instance:
    """An actor: its object, and for a class with coroutines the event loop on which all its methods run."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.is_async = any(inspect.iscoroutinefunction(member) for _, member in inspect.getmembers(type(target), callable))
        if self.is_async:
            self._loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self._loop.run_forever, name="volador-asyncio", daemon=True)
            thread.start()
            _stacks.add_loop(thread, self._loop)

    def call(self, method: str, packed: _values.Packed, awaited: list[_values.Packed]) -> _values.Packed:
        try:
            args, kwargs = _future.join_arguments(_values.unpack(packed), awaited)
            answer = self._method(method)(*args, **kwargs)
            return _values.pack(answer)
        except _ActorExit:
            return _values.pack(None, _values.EXIT)
        except BaseException as error:
            _debug.after_exception(_without_frames(error))
            return _values.pack_exception(error)
        finally:
            _debug.end_call()

    def start(self, method: str, packed: _values.Packed, awaited: list[_values.Packed], answer: Any) -> None:
        """Runs the method on the event loop; `answer` gets its result. Calls start in order."""

        async def run() -> None:
            try:
                args, kwargs = _future.join_arguments(_values.unpack(packed), awaited)
                result = self._method(method)(*args, **kwargs)
                if inspect.isawaitable(result):
                    result = await result
                made = _values.pack(result)
            except _ActorExit:
                made = _values.pack_exception(ActorDiedError(f"{type(self.target).__name__} ended itself by exit_actor()"))
                self._loop.run_in_executor(None, _core.end_actor)
            except BaseException as error:
                _debug.after_exception(_without_frames(error))
                made = _values.pack_exception(error)
            _debug.end_call()
            answer.set(made)

        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(run(), name=f"{type(self.target).__name__}.{method}"))

    def items(self, method: str, packed: _values.Packed, awaited: list[_values.Packed]) -> Generator[_values.Packed, None, None]:
        """The items of a generator; its exception is the last one."""
        items = None
        try:
            args, kwargs = _future.join_arguments(_values.unpack(packed), awaited)
            items = self._method(method)(*args, **kwargs)
            for item in items:
                yield _values.pack(item)
        except GeneratorExit:
            raise
        except BaseException as error:
            _debug.after_exception(_without_frames(error))
            yield _values.pack_exception(error)
        finally:
            _debug.end_call()
            if items is not None:
                items.close()

    def checkpoint(self, method: str, directory: str) -> None:
        getattr(self.target, method)(directory)

    def _method(self, name: str) -> Any:
        return _nothing if name == "__volador_ready__" else getattr(self.target, name)


def _nothing() -> None:
    pass


class _ActorExit(BaseException):
    """Raised by exit_actor()."""


def exit_actor() -> None:
    """Ends the calling actor for good, once this call was answered with ActorDiedError."""
    if not _core.is_inside_actor():
        raise RuntimeError("volador.exit_actor() has a meaning inside an actor only; this process is a driver")
    raise _ActorExit


def _without_frames(error: BaseException) -> BaseException:
    """Leaves the frames of this module out of the traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error.with_traceback(trace)


# ---- tasks ----


@functools.lru_cache(maxsize=256)
def _function(pickled: bytes) -> tuple[Any, bool | tuple[type[BaseException], ...]]:
    return _code.unpack((_values.VALUE, pickled, [], [], []))  # type: ignore[no-any-return]


def run_task(code: _values.Packed, packed: _values.Packed, awaited: list[_values.Packed]) -> _values.Packed | str:
    """Runs a task: its answer, or the text of an exception after which it may be retried."""
    retried: bool | tuple[type[BaseException], ...] = False
    try:
        function, retried = _function(code[1]) if not code[2] and not code[3] and not code[4] else _code.unpack(code)
        args, kwargs = _future.join_arguments(_values.unpack(packed), awaited)
        return _values.pack(function(*args, **kwargs))
    except BaseException as error:
        _debug.after_exception(_without_frames(error))
        if retried is True or (retried and isinstance(error, retried)):
            return _values.exception_text(error)
        return _values.pack_exception(error)
    finally:
        _debug.end_call()
        flush()
