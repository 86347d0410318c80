"""Serialization: pickle 5 with large buffers beside it, and with references and handles that the runtime counts.

A serialized value is the tuple (kind, pickle, [buffer], [core Ref], [core Handle]) that the extension sends and stores.
"""

from __future__ import annotations

import base64
import io
import pickle
import threading
import traceback
import types
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

from volador.exceptions import RemoteTraceback, TaskError

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE = 0
EXCEPTION = 1
EXIT = 2

Packed = tuple[int, bytes, list[Any], list[Any], list[Any]]

# Smaller buffers stay in the pickle, so that arrays are writable at the reader.
_BUFFER_BYTES_MIN = 64 << 10
_MARK = "\x1f"  # Before an exception in the text of an error.


class _Thread(threading.local):
    """What the value that this thread writes or reads refers to; None: it does neither."""

    writing: tuple[list[Any], list[Any]] | None = None
    reading: tuple[list[Any], list[Any]] | None = None


_thread = _Thread()


def pack(value: object, kind: int = VALUE) -> Packed:
    """Serializes a value. Raises what its own pickling raises, and TypeError for what cannot be pickled."""
    buffers: list[Any] = []
    refs: list[Any] = []
    handles: list[Any] = []

    def outside(buffer: pickle.PickleBuffer) -> bool:
        with buffer.raw() as raw:
            if raw.nbytes < _BUFFER_BYTES_MIN:
                return True
        buffers.append(buffer)
        return False

    before = _thread.writing
    _thread.writing = (refs, handles)
    try:
        data = _dumps(value, outside)
        if data is None:
            for each in (buffers, refs, handles):
                each.clear()
            with io.BytesIO() as file:
                _Pickler(file, protocol=5, buffer_callback=outside).dump(value)
                data = file.getvalue()
    finally:
        _thread.writing = before
    return kind, data, buffers, refs, handles


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps the file names of code, which cloudpickle leaves out: tracebacks and errors name them."""

    dispatch_table = cloudpickle.Pickler.dispatch_table.new_child({types.CodeType: lambda code: _reduce_code(code)})


def _reduce_code(code: types.CodeType) -> tuple[Any, ...]:
    make, arguments = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return make, tuple(code.co_filename if each == "<dynamic-code>" else each for each in arguments)


def _dumps(value: object, outside: Callable[[pickle.PickleBuffer], bool]) -> bytes | None:
    """The pickle by C's pickler, five times cheaper than cloudpickle's; None: only cloudpickle can do it."""
    try:
        data = pickle.dumps(value, protocol=5, buffer_callback=outside)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    # What is defined in __main__ travels by value: __main__ of another process is another module.
    return None if b"__main__" in data else data


def unpack(packed: Packed) -> Any:
    """The inverse of pack(). An exception is returned, not raised."""
    kind, data, buffers, refs, handles = packed
    if not refs and not handles:
        value = pickle.loads(data, buffers=buffers)
    else:
        before = _thread.reading
        _thread.reading = (refs, handles)
        try:
            value = pickle.loads(data, buffers=buffers)
        finally:
            _thread.reading = before
    return _exception(value) if kind == EXCEPTION else value


def result(packed: Packed) -> Any:
    """The value, or raises the exception in its place."""
    value = unpack(packed)
    if packed[0] == EXCEPTION:
        raise value
    return value


def refer(what: object, place: int) -> int:
    """Adds a core Ref (place 0) or Handle (place 1) to the value that this thread writes; returns its index."""
    if _thread.writing is None:
        raise TypeError(
            f"a {type(what).__name__} was pickled outside of Volador: the runtime could not count it. Pass it as an argument, return it, or put it"
        )
    _thread.writing[place].append(what)
    return len(_thread.writing[place]) - 1


def referred(index: int, place: int) -> Any:
    """The core Ref or Handle at the index, in the value that this thread reads."""
    if _thread.reading is None:
        raise TypeError("a reference or handle of Volador was unpickled outside of Volador")
    return _thread.reading[place][index]


# ---- exceptions ----


def pack_exception(error: BaseException) -> Packed:
    """Serializes an exception with its traceback; one that cannot be pickled goes as its text."""
    name = _name(error)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        packed = pack((error, name, str(error), text), EXCEPTION)
        unpack(packed)  # Some exceptions cannot be made from their arguments.
    except Exception:
        packed = pack((None, name, str(error), text), EXCEPTION)
    return packed


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _exception(parts: tuple[BaseException | None, str, str, str]) -> BaseException:
    error, name, text, remote = parts
    if error is None:
        error = TaskError(f"{name}: {text}")
    error.__cause__ = RemoteTraceback(remote)
    return error


def exception_text(error: BaseException) -> str:
    """An exception as the text of an error, with its pickle at the end."""
    packed = pack_exception(error)
    text = f"{_name(error)}: {error}"
    if packed[2] or packed[3] or packed[4] or len(packed[1]) > 32 << 10:
        return text
    return f"{text}{_MARK}{base64.b64encode(packed[1]).decode()}"


def exception_in(message: str) -> BaseException | None:
    """The exception that exception_text() put there; None: there is none."""
    _, found, data = message.partition(_MARK)
    if not found:
        return None
    try:
        return _exception(pickle.loads(base64.b64decode(data)))
    except Exception:
        return None
