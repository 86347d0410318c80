"""The actor of a rank."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import volador
from volador.train import _session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTROL = "control"  # Concurrency group of the methods that are answered while the function runs.


class Rank(volador.Actor):
    """Runs the training function in one group after another."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], folder: str) -> None:
        self._function = function
        self._arguments = arguments
        self._folder = folder
        self._session: _session.Session | None = None
        self._generation = 0  # Joined, or aborted before it was.
        self._lock = threading.Lock()

    def prepare(self) -> dict[str, Any]:
        """Imports PyTorch; returns where this rank runs."""
        import torch

        context = volador.get_runtime_context()
        return {
            "node": context["node"],
            "node_id": context["node_id"],
            "pid": os.getpid(),
            "scratch": context["scratch"],
            "shares_folder": os.path.isdir(self._folder),
            "device": "cuda:0" if context["gpus"] and torch.cuda.is_available() else "cpu",
        }

    def receive(self, name: str, part: bytes) -> None:
        """A part of a file of the checkpoint with which the next group begins; an empty name begins a checkpoint."""
        folder = _session.received_folder()
        if name:
            _session.append(folder, name, part)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)

    def join(self, formation: _session.Formation) -> None:
        """Connects to the other ranks; returns when all have joined."""
        if self._session is not None:  # Of a group in which the function did not run.
            self._session.leave()
        session = _session.Session(formation)
        with self._lock:
            self._session = session
            if self._generation == formation.generation:  # abort() was faster.
                session.abort()
            self._generation = formation.generation

    def run(self) -> Iterator[tuple[Any, ...]]:
        """Runs the function; its items as Session.run() puts them."""
        session = self._session
        assert session is not None
        thread = threading.Thread(target=session.run, args=(self._function, self._arguments), name="train", daemon=True)
        thread.start()
        while True:
            item = session.items.get()
            yield item
            if item[0] == "end":
                thread.join()
                return

    @volador.method(concurrency_group=CONTROL)
    def status(self) -> tuple[int, float]:
        """Reports so far, and seconds since the last one."""
        session = self._session
        return (0, 0.0) if session is None else (session.step, time.monotonic() - session.step_at)

    @volador.method(concurrency_group=CONTROL)
    def pause(self, generation: int) -> None:
        if self._session is not None and self._generation == generation:
            self._session.pause()

    @volador.method(concurrency_group=CONTROL)
    def abort(self, generation: int) -> None:
        with self._lock:
            if self._session is not None and self._generation == generation:
                self._session.abort()
            self._generation = max(self._generation, generation)
