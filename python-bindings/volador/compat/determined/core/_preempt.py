"""Requests to stop and come back later."""

from __future__ import annotations

import enum
import logging
import signal
import threading
from typing import TYPE_CHECKING, Any

from volador import exceptions
from volador.compat.determined import _session
from volador.compat.determined.core._distributed import DistributedContext

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger("determined.core")
_ACKNOWLEDGE_S = 60.0  # A head that is away longer must not keep a trial that has saved its work.
_requested = threading.Event()
_answered = threading.Event()  # should_preempt() was True.
asked: Callable[[], bool] | None = None  # Of a launcher, in addition.


def request_preemption() -> None:
    """Called by a launcher, also within a signal handler: should_preempt() is True from now on."""
    _requested.set()


def on_sigterm() -> None:
    """The queue asks by SIGTERM. A handler of the program's own stays, and a thread cannot set one."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, frame: request_preemption())


def was_preempted() -> bool:
    """Whether should_preempt() was True since the last call."""
    was = _answered.is_set()
    _answered.clear()
    return was


class PreemptMode(enum.Enum):
    """Who calls should_preempt(). WorkersAskChief: all, in step. ChiefOnly: the chief. WorkersAskMaster: each when it likes."""

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptContext:
    """Whether the trial should save a checkpoint and end now, to be started again from it. With a session the head is asked as well."""

    def __init__(
        self, dist: DistributedContext, preempt_mode: PreemptMode = PreemptMode.WorkersAskChief, session: _session.Session | None = None
    ) -> None:
        self._dist = dist
        self._preempt_mode = PreemptMode(preempt_mode)
        self._session = session
        self._started = False
        self._acknowledged = False
        self._closed = threading.Event()

    def start(self) -> PreemptContext:
        if self._started:
            raise RuntimeError("PreemptContext.start: it was started before; core.init() starts it")
        self._started = True
        if self._session is not None and (self._dist.rank == 0 or self._preempt_mode is PreemptMode.WorkersAskMaster):
            threading.Thread(target=_watch, args=(self._session, self._closed), name="determined-preemption", daemon=True).start()
        return self

    def close(self) -> None:
        """Does not wait for the question that is under way."""
        self._closed.set()

    def __enter__(self) -> PreemptContext:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def should_preempt(self, auto_ack: bool = True) -> bool:
        if not self._started:
            raise RuntimeError("PreemptContext.should_preempt: not started; call it within `with core.init() as context`")
        if self._preempt_mode is PreemptMode.ChiefOnly and self._dist.rank != 0:
            raise RuntimeError(f"PreemptContext.should_preempt: with PreemptMode.ChiefOnly only rank 0 may call it, this is rank {self._dist.rank}")
        if self._preempt_mode is PreemptMode.WorkersAskChief:
            answer = bool(self._dist.broadcast(is_requested()))
        else:
            answer = is_requested()
        if answer:
            _answered.set()
            if auto_ack:
                self.acknowledge_preemption_signal()
        return answer

    def acknowledge_preemption_signal(self) -> None:
        """Tells the head that the trial ends because it should; at the chief, once."""
        if self._session is None or self._acknowledged or self._dist.rank != 0:
            return
        self._acknowledged = True
        try:
            self._session.call("AcknowledgePreemption", patience=_ACKNOWLEDGE_S)
        except exceptions.VoladorError as error:
            _logger.warning("the head does not know that the trial ends because it should: %s", error)


def is_requested() -> bool:
    return _requested.is_set() or (asked is not None and asked())


def _watch(session: _session.Session, closed: threading.Event) -> None:
    """Asks the head until it wants the trial to end."""
    while not closed.is_set():
        try:
            reply = session.call("WaitPreemption", wait_ms=_session.POLL_MS, wanted=lambda: not closed.is_set())
        except _session.RunEnded:
            reply = {"preempt": True}
        except exceptions.VoladorError as error:
            if not closed.is_set():
                _logger.warning("the trial no longer hears when it should end: %s", error)
            return
        if reply.get("preempt"):
            request_preemption()
            return


DummyPreemptContext = PreemptContext
