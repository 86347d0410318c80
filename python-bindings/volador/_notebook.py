"""Output that changes in place in a Jupyter notebook, without widgets. IPython is used only where it is loaded already."""

from __future__ import annotations

import contextvars
import importlib
import os
import sys
import threading
import time
import uuid
import warnings
from typing import TYPE_CHECKING, Any

from volador import _html

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

INTERVAL_S = 0.4  # Between two updates with something new.
QUIET_S = 2.0  # Between two updates of the time alone.
COST_SHARE = 20  # Updates take at most 1/COST_SHARE of the time.


def is_notebook() -> bool:
    """Whether a Jupyter kernel runs this code: it shows HTML."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = None if find is None else find()
    kernel = getattr(shell, "kernel", None)
    # A process that was forked from the kernel has its modules but not its connections.
    return kernel is not None and getattr(getattr(kernel, "session", None), "pid", os.getpid()) == os.getpid()


class LiveOutput:
    """One output of the present cell that shows a page, for a with statement. It is updated by a thread of its own while
    the statement runs, and has its last state afterwards, which a saved notebook keeps.

    page: makes what is shown, on that thread and at the end on the caller's. An exception from it becomes a warning."""

    def __init__(self, page: Callable[[], _html.Page]) -> None:
        self._page = page
        self._id = uuid.uuid4().hex
        self._changed = threading.Event()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._is_broken = False
        self._shown = ""
        self._thread: threading.Thread | None = None

    def changed(self) -> None:
        """There is something new to show. On any thread."""
        self._changed.set()

    def __enter__(self) -> LiveOutput:
        self._show(is_first=True)
        # The variables of the context say to which cell output belongs.
        here = contextvars.copy_context()
        self._thread = threading.Thread(target=here.run, args=(self._follow,), name="volador-output", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._is_over.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()
        self._show(is_first=False)

    def _follow(self) -> None:
        pause = INTERVAL_S
        while not self._is_over.wait(pause):
            self._changed.wait(max(0.0, QUIET_S - pause))
            if self._is_over.is_set():
                return
            self._changed.clear()
            began = time.monotonic()
            self._show(is_first=False)
            pause = max(INTERVAL_S, COST_SHARE * (time.monotonic() - began))

    def _show(self, is_first: bool) -> None:
        if self._is_broken:
            return
        try:
            page = self._page()
            made = _html.page(page)
            if made == self._shown:
                return
            self._shown = made
            publish({"text/html": made, "text/plain": _html.text(page)}, self._id, is_first)
        except Exception as error:
            self._is_broken = True
            warnings.warn(f"the output of a run is not updated any more: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)


def publish(data: dict[str, str], display_id: str, is_first: bool) -> None:
    """Makes an output of the present cell, or replaces it."""
    display: Any = importlib.import_module("IPython.display").display
    display(data, raw=True, display_id=display_id, update=not is_first)
