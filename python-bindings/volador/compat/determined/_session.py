"""Connection of a trial's process to the head of its cluster.

`volador experiment run-trial` starts the process with VOLADOR_ADDRESS, VOLADOR_TOKEN, VOLADOR_TRIAL and VOLADOR_TRIAL_RUN. Calls wait while the
head is away: a head that starts again does not fail a trial."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from volador import exceptions
from volador.compat.determined import util

_logger = logging.getLogger("determined")

_VARIABLES = ("VOLADOR_ADDRESS", "VOLADOR_TOKEN", "VOLADOR_TRIAL", "VOLADOR_TRIAL_RUN")
_AWAY = (exceptions.UnavailableError, exceptions.UnknownOutcomeError, exceptions.GetTimeoutError)  # All calls may be repeated.
_FIRST_PAUSE_S, _PAUSE_MAX_S, _REMINDER_S = 0.1, 5.0, 60.0
POLL_MS = 20_000  # Below the timeout of a call.


class RunEnded(SystemExit):
    """The head has given the trial to a later run, or has ended it: this process ends with a failure, so that others of the run end with it."""


def _connect(address: str, token: str) -> Any:
    from volador import _core

    return _core.JobsApi(address, token, "")


class Session:
    """Operations of Experiments for one run of a trial. Threads may call at the same time."""

    def __init__(self, address: str, token: str, trial: int, run: int) -> None:
        self._address = address
        self._token = token
        self._api: Any = None
        self._lock = threading.Lock()
        self.trial = trial
        self.run = run

    def call(self, operation: str, *, patience: float | None = None, wanted: Callable[[], bool] = lambda: True, **fields: Any) -> dict[str, Any]:
        """Calls an operation of this run.

        While the head is away it is called again: for `patience` seconds (None: without limit), and as long as it is wanted; then raises
        UnavailableError or another error of the connection. RunEnded: the run is not the trial's current one. Other errors as JobsApi.call()."""
        return self.call_any(operation, {"trial": self.trial, "run": self.run, **fields}, patience=patience, wanted=wanted)

    def call_any(
        self, operation: str, request: dict[str, Any], *, patience: float | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> dict[str, Any]:
        """Of other things than this run; see call()."""
        text = util.json_encode(request)
        started = told = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                reply: dict[str, Any] = json.loads(self._connected().call(f"Experiments/{operation}", text))
                return reply
            except exceptions.CancelledError as error:
                print(f"the trial's run has ended: {error}", file=sys.stderr, flush=True)
                raise RunEnded(1) from None
            except _AWAY as error:
                now = time.monotonic()
                if (patience is not None and now - started >= patience) or not wanted():
                    raise
                if now - told >= _REMINDER_S:
                    _logger.warning("the head does not answer, %s is called again until it does: %s", operation, error)
                    told = now
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX_S)

    def _connected(self) -> Any:
        with self._lock:
            if self._api is None:
                self._api = _connect(self._address, self._token)
            return self._api


_sessions: dict[tuple[str, ...], Session] = {}


def of_environment() -> Session | None:
    """The session of this process; None where it is not a trial of a cluster."""
    values = tuple(os.environ.get(name, "") for name in _VARIABLES)
    if not all(values):
        return None
    key = (*values, str(os.getpid()))  # A connection does not survive a fork.
    if key not in _sessions:
        _sessions[key] = Session(values[0], values[1], int(values[2]), int(values[3]))
    return _sessions[key]
