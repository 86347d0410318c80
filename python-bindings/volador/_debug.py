"""Inside hosts: the debugger at breakpoint() and after exceptions, to which `volador debug` attaches a terminal."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from volador import _core

if TYPE_CHECKING:
    from types import TracebackType

    from volador._debugger import Debugger

POST_MORTEM = "VOLADOR_POST_MORTEM"
_host = 0  # Process id.
_local = threading.local()  # The debugger of a thread, from its first stop to the end of its call.


def install() -> None:
    global _host
    _host = os.getpid()
    sys.breakpointhook = _at_breakpoint


def end_call() -> None:
    """At the end of each call and task: its debugger ends with it."""
    debugger = getattr(_local, "debugger", None)
    if debugger is not None:
        sys.settrace(None)
        _local.debugger = None
        debugger.terminal.close("the call has ended")


def after_exception(error: BaseException) -> None:
    """Waits in a debugger at the exception of a call or task, if the program asks for it."""
    if os.environ.get(POST_MORTEM, "0") in ("", "0") or not isinstance(error, Exception):
        return
    trace = _last(error.__traceback__)
    if trace is None or _core.cancel_requested():
        return
    from bdb import BdbQuit

    if isinstance(error, BdbQuit):
        return
    sys.settrace(None)
    _debugger_of_thread().show(error, trace)
    end_call()


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _at_breakpoint(*args: Any, **kwargs: Any) -> Any:
    # Nothing can attach to a process that the host has forked.
    if os.environ.get("PYTHONBREAKPOINT", "") not in ("", "pdb.set_trace") or os.getpid() != _host:
        return sys.__breakpointhook__(*args, **kwargs)
    _debugger_of_thread().set_trace(sys._getframe(1))
    return None


def _debugger_of_thread() -> Debugger:
    from volador._debugger import Debugger, Terminal

    debugger: Debugger | None = getattr(_local, "debugger", None)
    if debugger is None or debugger.terminal.is_closed:
        debugger = _local.debugger = Debugger(Terminal())
    return debugger
