"""Where the time of a batch goes, as `profiling` of the configuration asks: for the trial's page and `volador trial metrics --group timing`."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

GROUP = "timing"
NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


@dataclasses.dataclass(frozen=True)
class Profiling:
    """`profiling` of a configuration. begin_on_batch, end_after_batch: the first and the last batch, from 0; None: to the end."""

    begin_on_batch: int = 0
    end_after_batch: int | None = None
    sync_timings: bool = True  # Waits for the GPU at both ends of a part.


def profiling_of(config: Mapping[str, Any]) -> Profiling | None:
    """None: it is not enabled."""
    given = config.get("profiling") or {}
    if not given.get("enabled"):
        return None
    return Profiling(int(given.get("begin_on_batch") or 0), given.get("end_after_batch"), bool(given.get("sync_timings", True)))


class Timings:
    """Times of the parts of batches between two reports.

    batch_size: records of a batch of all processes; None: unknown. synchronize: waits for the device."""

    def __init__(self, profiling: Profiling, batch_size: int | None, synchronize: Callable[[], object] | None) -> None:
        self._profiling = profiling
        self._batch_size = batch_size
        self._synchronize = synchronize if profiling.sync_timings else None
        self._on = False  # In the window of batches.
        self._batches = 0
        self._seconds: dict[str, float] = {}
        self._inner: list[float] = []  # Of each part that is under way: seconds of parts within it.

    def batches(self, batches: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """The same batches; the time of each counts as dataloader_next."""
        first, last = self._profiling.begin_on_batch, self._profiling.end_after_batch
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                return
            self._on = first <= batch[0] and (last is None or batch[0] <= last)
            if self._on:
                self._batches += 1
                self._add("dataloader_next", time.perf_counter() - begin)
            yield batch

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds the time of the block, without that of parts within it."""
        if not self._on:
            yield
            return
        self._wait()
        begin = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            self._wait()
            whole = time.perf_counter() - begin
            within = self._inner.pop()
            if self._inner:
                self._inner[-1] += whole
            self._add(name, whole - within)

    def take(self) -> dict[str, float]:
        """Mean seconds a batch of each part since the last call, and samples_per_second; empty: no batch was in the window."""
        count, seconds = self._batches, self._seconds
        self._batches, self._seconds = 0, {}
        if count == 0:
            return {}
        means = {name: value / count for name, value in seconds.items()}
        whole = sum(seconds.values())
        if self._batch_size and whole > 0:
            means["samples_per_second"] = count * self._batch_size / whole
        return means

    def _add(self, name: str, seconds: float) -> None:
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def _wait(self) -> None:
        if self._synchronize is not None:
            self._synchronize()
