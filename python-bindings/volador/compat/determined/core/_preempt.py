"""Requests to stop and come back later."""

from __future__ import annotations

import enum
import threading
from typing import TYPE_CHECKING, Any

from volador.compat.determined.core._distributed import DistributedContext

if TYPE_CHECKING:
    from collections.abc import Callable

_requested = threading.Event()
_answered = threading.Event()  # should_preempt() was True.
asked: Callable[[], bool] | None = None  # Of a launcher, in addition.


def request_preemption() -> None:
    """Called by a launcher, also within a signal handler: should_preempt() is True from now on."""
    _requested.set()


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
    """Whether the trial should save a checkpoint and end now, to be started again from it."""

    def __init__(self, dist: DistributedContext, preempt_mode: PreemptMode = PreemptMode.WorkersAskChief) -> None:
        self._dist = dist
        self._preempt_mode = PreemptMode(preempt_mode)
        self._started = False

    def start(self) -> PreemptContext:
        if self._started:
            raise RuntimeError("PreemptContext.start: it was started before; core.init() starts it")
        self._started = True
        return self

    def close(self) -> None:
        pass

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
            answer = bool(self._dist.broadcast(_is_requested()))
        else:
            answer = _is_requested()
        if answer:
            _answered.set()
        return answer

    def acknowledge_preemption_signal(self) -> None:
        """No effect: a trial that ends with a checkpoint is started again from it."""


def _is_requested() -> bool:
    return _requested.is_set() or (asked is not None and asked())


DummyPreemptContext = PreemptContext
