"""Python frames of a host's threads, for `volador stack`. Called by the extension."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from volador import _core

if TYPE_CHECKING:
    from types import CodeType

_FRAMES_MAX = 100  # Of one thread; the innermost ones.
_TASKS_MAX = 100  # Of one event loop.
_loops: list[tuple[int, asyncio.AbstractEventLoop]] = []  # With the thread that runs each.


def add_loop(thread: threading.Thread, loop: asyncio.AbstractEventLoop) -> None:
    """The coroutines of this loop are shown with its thread."""
    _loops.append((thread.ident or 0, loop))


def prepare() -> None:
    """In a host: frames can be read while a thread holds the interpreter lock, by a signal that the program does not use."""
    for number in range(signal.SIGRTMAX - 2, signal.SIGRTMIN, -1):
        if signal.getsignal(number) == signal.SIG_DFL:
            file = os.memfd_create("volador-frames")
            faulthandler.register(number, file, all_threads=True)
            _core.set_frame_dump(file, number)
            return


def frames() -> dict[int, list[str]]:
    """Lines of each thread by its number, innermost first. Without the thread that asks."""
    own = threading.get_ident()
    rows = {thread: _chain(frame, "f_back") for thread, frame in sys._current_frames().items() if thread != own}
    for thread, loop in _loops:
        with contextlib.suppress(RuntimeError):  # Tasks came and went in the meantime.
            tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
            lines = rows.setdefault(thread, [])
            for task in tasks[:_TASKS_MAX]:
                waits = _awaited(task.get_coro())
                lines += [f"py {task.get_name()} waits: {line.removeprefix('py ')}" for line in waits]
            if len(tasks) > _TASKS_MAX:
                lines.append(f"py and {len(tasks) - _TASKS_MAX} further tasks")
    return rows


def line_of(code: CodeType, line: int | None) -> str:
    name = getattr(code, "co_qualname", code.co_name)
    return f"py {name.replace('.<locals>', '')} at {code.co_filename}:{line}"


def _chain(frame: Any, link: str) -> list[str]:
    """A frame and its callers."""
    lines: list[str] = []
    while frame is not None and len(lines) < _FRAMES_MAX:
        lines.append(line_of(frame.f_code, frame.f_lineno))
        frame = getattr(frame, link)
    return lines


def _awaited(coroutine: Any) -> list[str]:
    """A suspended coroutine and those that it awaits, innermost first; nothing for one that runs, which a thread shows."""
    lines: list[str] = []
    if getattr(coroutine, "cr_running", False):
        return lines
    while coroutine is not None and len(lines) < _FRAMES_MAX:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            lines.append(line_of(frame.f_code, frame.f_lineno))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return lines[::-1]
