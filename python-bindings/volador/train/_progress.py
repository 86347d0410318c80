"""A training run while it lasts, as one output of a notebook's cell."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from volador import _core, _html, _notebook
from volador.exceptions import VoladorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

RANKS_MAX = 16
METRICS_MAX = 12
FAULTS_MAX = 5
EVENTS_MAX = 5


@dataclasses.dataclass
class Series:
    """Values of a metric in short; NaN counts in `last` only."""

    last: float = math.nan
    least: float = math.nan
    most: float = math.nan

    def add(self, value: float) -> None:
        self.last = value
        if not math.isnan(value):
            self.least = value if math.isnan(self.least) else min(self.least, value)
            self.most = value if math.isnan(self.most) else max(self.most, value)


@dataclasses.dataclass
class Training:
    """A training run as plain data."""

    name: str
    metric: str = "loss"
    state: str = "running"
    activity: str = ""
    step: int | None = None  # Of the last report.
    metrics: dict[str, Series] = dataclasses.field(default_factory=dict)
    ranks: Sequence[tuple[str, int, str]] = ()  # Node, pid, device.
    checkpoint: int | None = None  # Step of the last complete one.
    faults: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # Of whom, and why.
    events: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    resources: str = ""
    directory: str = ""


def page_of(run: Training) -> _html.Page:
    """What the output of a training run shows."""
    names = sorted(run.metrics, key=lambda name: name != run.metric)  # Its metric is the first.
    metrics = [_html.Row([name, series.last, series.least, series.most]) for name in names[:METRICS_MAX] for series in [run.metrics[name]]]
    ranks = [_html.Row([rank, *place]) for rank, place in enumerate(run.ranks[:RANKS_MAX])]
    return _html.Page(
        title=run.name,
        state=run.state,
        facts=[
            "" if run.step is None else f"step {run.step}",
            _html.counted(len(run.ranks), "worker") if run.ranks else "",
            _html.counted(len(run.faults), "fault") if run.faults else "",
            run.resources,
            _html.elapsed(run.seconds),
        ],
        lines=[run.activity if run.state == "running" else "", "" if run.checkpoint is None else f"last checkpoint after step {run.checkpoint}"],
        tables=[
            _html.Table(["metric", "last", "least", "most"], metrics, _more(len(names) - METRICS_MAX, "metric")),
            _html.Table(["rank", "node", "process", "device"], ranks, _more(len(run.ranks) - RANKS_MAX, "rank")),
        ],
        errors=run.faults[-FAULTS_MAX:],
        errors_left_out=len(run.faults) - FAULTS_MAX,
        notices=run.events[-EVENTS_MAX:],
        footer=f"results {run.directory}" if run.directory else "",
    )


def _more(amount: int, noun: str) -> str:
    return f"… {_html.counted(amount, f'more {noun}')}" if amount > 0 else ""


class Watch:
    """Follows a training run, for a with statement around it. around() gives the run's report, which passes on what it is told."""

    def __init__(self, name: str, metric: str) -> None:
        self._run = Training(name, metric)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._output = _notebook.LiveOutput(self._page)
        self._report: Any = None

    def __enter__(self) -> Watch:
        self._output.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._run.state == "running":  # It ended before its report did.
            self._run.state = "failed" if kind is not None else "finished"
        self._output.__exit__(kind, error, trace)

    def around(self, report: Any) -> Watch:
        """report: a _core.RunReport."""
        self._report = report
        self._run.directory = _html.display_path(str(report.directory))
        return self

    # ---- As of _core.RunReport.

    @property
    def directory(self) -> str:
        return str(self._report.directory)

    def stop_requested(self) -> bool:
        return bool(self._report.stop_requested())

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self._report.metrics(step, values)
        with self._lock:
            self._run.step = step
            for name, value in values.items():
                self._run.metrics.setdefault(name, Series()).add(value)
        self._output.changed()

    def event(self, sentence: str) -> None:
        self._report.event(sentence)
        with self._lock:
            self._run.events.append(sentence)
        self._output.changed()

    def fault(self, rank: int, cause: str) -> None:
        self._report.fault(rank, cause)
        with self._lock:
            self._run.faults.append(("a starting worker" if rank < 0 else f"rank {rank}", cause))
        self._output.changed()

    def activity(self, sentence: str) -> None:
        self._report.activity(sentence)
        self._run.activity = sentence
        self._output.changed()

    def ranks(self, ranks: list[tuple[Any, str, int, str]], step: int) -> None:
        self._report.ranks(ranks, step)
        self._run.ranks = [(node, pid, device) for _, node, pid, device in ranks]
        self._output.changed()

    def end(self, outcome: str, message: str) -> None:
        self._report.end(outcome, message)
        self._run.state = outcome

    # ---- Of the controller alone.

    def checkpoint(self, step: int) -> None:
        """A checkpoint is complete."""
        self._run.checkpoint = step
        self._output.changed()

    def _page(self) -> _html.Page:
        resources = ""
        if self._run.state == "running":
            with contextlib.suppress(VoladorError):
                resources = _html.resources(_core.cluster_resources(), _core.used_resources())
        with self._lock:
            run = dataclasses.replace(
                self._run,
                metrics={name: dataclasses.replace(series) for name, series in self._run.metrics.items()},
                faults=list(self._run.faults),
                events=list(self._run.events),
                seconds=time.monotonic() - self._began,
                resources=resources,
            )
        return page_of(run)
