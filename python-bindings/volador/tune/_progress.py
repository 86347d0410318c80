"""The trials of a run while it lasts, as one output of a notebook's cell."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from volador import _core, _html, _notebook
from volador.exceptions import VoladorError
from volador.tune import _space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

ROWS_MAX = 20
COLUMNS_MAX = 8  # Of parameters.
METRICS_MAX = 4  # Columns where the run has no metric.
ERRORS_MAX = 5
NOTICES_MAX = 5
_NOTICES_S = 5.0  # Between two looks for new notices.
_ENDED = ("finished", "stopped", "failed", "interrupted", "unstarted")
_AUTOMATIC = ("training_iteration", "time_this_iter_s", "time_total_s", "done")  # Metrics of all trials.


@dataclasses.dataclass
class Run:
    """A run as plain data."""

    name: str
    metrics: Sequence[str] = ()  # That trials are judged by.
    mode: str = "max"  # Of the metric, if there is one.
    parameters: Sequence[str] = ()  # Paths of those that differ between trials; none: all.
    trials: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)  # Fields of the run's JSON by id.
    planned: int | None = None  # Trials; None: there is no end.
    best: Sequence[str] | None = None  # Ids, as the run's results have them; None: the best so far by their last values.
    state: str = "running"
    seconds: float = 0.0
    resources: str = ""
    notices: Sequence[str] = ()
    directory: str = ""


def page_of(run: Run, rows_max: int = ROWS_MAX) -> _html.Page:
    """What the output of a run shows."""
    trials = list(run.trials.values())
    best = [run.trials[each] for each in _best_of(run) if each in run.trials]
    states = [_status(trial) for trial in trials]
    total = len(trials) if run.planned is None else max(run.planned, len(trials))
    if run.state == "running":
        states += ["waiting"] * (total - len(trials))
    ended = sum(state in _ENDED for state in states)
    count = _html.counted(len(trials), "trial") if run.planned is None else f"{ended} of {_html.counted(total, 'trial')}"
    by_state = _html.counts(states)
    failed = [(f"trial {trial['trial_id']}", str(trial.get("error") or "failed")) for trial in trials if _status(trial) == "failed"]
    return _html.Page(
        title=run.name,
        state=run.state,
        facts=[f"{count}: {by_state}" if by_state else count, run.resources, _html.elapsed(run.seconds)],
        done=ended / total if run.planned is not None and total else None,
        lines=[_best_line(run, best[0])] if len(best) == 1 and run.metrics else [],
        tables=[table_of(run, best, rows_max)],
        errors=failed[:ERRORS_MAX],
        errors_left_out=len(failed) - ERRORS_MAX,
        notices=run.notices[-NOTICES_MAX:],
        footer=f"results {run.directory}" if run.directory else "",
    )


def ended(analysis: Any, fields: Mapping[str, Any], trials: dict[str, dict[str, Any]]) -> Run:
    """A run that has ended. analysis: of the extension, which decides what is best; fields: of its JSON."""
    metrics = [goal["metric"] for goal in fields.get("objectives") or ()] or ([fields["metric"]] if fields.get("metric") else [])
    return Run(
        name=str(fields.get("name") or ""),
        metrics=metrics,
        mode=str(fields.get("mode") or "max"),
        parameters=_different(trials.values()),
        trials=trials,
        best=best_of(analysis, metrics),
        state=str(fields.get("state") or ""),
        seconds=max(0, fields.get("written_ns", 0) - fields.get("started_ns", 0)) / 1e9,
        notices=list(analysis.notices),
        directory=_html.display_path(str(analysis.directory)),
    )


def best_of(analysis: Any, metrics: Sequence[str]) -> list[str]:
    """Ids of the best trials: with several metrics those that no other dominates."""
    with contextlib.suppress(VoladorError):  # There is no metric, or no trial reported it.
        return list(analysis.pareto_front()) if len(metrics) > 1 else [str(analysis.best_trial("", ""))]
    return []


def _different(trials: Iterable[Mapping[str, Any]]) -> list[str]:
    """Paths of the parameters that trials have different values of; none: of no parameter."""
    values: dict[str, set[str]] = {}
    for trial in trials:
        for name, value in _html.flattened(trial.get("config") or {}).items():
            values.setdefault(name, set()).add(repr(value))
    return [name for name, found in values.items() if len(found) > 1]


def table_of(run: Run, best: Sequence[Mapping[str, Any]], rows_max: int) -> _html.Table:
    """The best trials, then running ones, then others, the better ones first."""
    shown = _chosen(run, best, rows_max)
    configs = [_html.flattened(trial.get("config") or {}) for trial in shown]
    names = list(dict.fromkeys(name for config in configs for name in config))
    if run.parameters:
        names = [name for name in names if any(name == path or name.startswith(f"{path}.") for path in run.parameters)]
    metrics = run.metrics or [
        name for name in dict.fromkeys(name for trial in shown for name in trial.get("last_result") or {}) if name not in _AUTOMATIC
    ][:METRICS_MAX]
    marked = {id(trial) for trial in best}
    rows = [
        _html.Row(
            cells=[
                str(trial["trial_id"]),
                _html.State(_status(trial)),
                trial.get("step") or None,
                *(_value(trial, name) for name in metrics),
                *(config.get(name) for name in names[:COLUMNS_MAX]),
            ],
            is_best=id(trial) in marked,
        )
        for trial, config in zip(shown, configs)
    ]
    there = {id(trial) for trial in shown}
    others = _html.counts(_status(trial) for trial in run.trials.values() if id(trial) not in there)
    left_out = [f"… more trials: {others}" if others else "", f"… {len(names) - COLUMNS_MAX} more parameters" if len(names) > COLUMNS_MAX else ""]
    return _html.Table(
        columns=["trial", "state", "step", *metrics, *names[:COLUMNS_MAX]], rows=rows, note="; ".join(part for part in left_out if part)
    )


def variable_paths(space: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Paths of the parameters that are no constants."""
    found: list[str] = []
    for name, value in space.items():
        if isinstance(value, dict):
            found += variable_paths(value, f"{prefix}{name}.")
        elif _space.has_domain(value):
            found.append(f"{prefix}{name}")
    return found


def _status(trial: Mapping[str, Any]) -> str:
    return str(trial.get("status") or "waiting")


def _value(trial: Mapping[str, Any], metric: str) -> Any:
    """The last value that was reported; None: there is none. JSON has nan and inf as texts."""
    summary = (trial.get("metrics") or {}).get(metric) or {}
    value = summary.get("last", (trial.get("last_result") or {}).get(metric))
    return float(value) if isinstance(value, str) and value in ("nan", "inf", "-inf") else value


def _rank(run: Run, trial: Mapping[str, Any]) -> tuple[float, int]:
    """Less is better, as tune/loop/best_trial.h says; infinite: there is no usable value."""
    value = _value(trial, run.metrics[0]) if len(run.metrics) == 1 else None
    number = float(value) if value is not None and _html.is_number(value) else math.nan
    return (number if run.mode == "min" else -number) if math.isfinite(number) else math.inf, int(trial.get("index", 0))


def _best_of(run: Run) -> Sequence[str]:
    if run.best is not None:
        return run.best
    usable = [trial for trial in run.trials.values() if _rank(run, trial)[0] < math.inf]
    return [str(min(usable, key=lambda trial: _rank(run, trial))["trial_id"])] if usable else []


def _best_line(run: Run, trial: Mapping[str, Any]) -> str:
    config = _html.flattened(trial.get("config") or {})
    if run.parameters:
        config = {name: value for name, value in config.items() if any(name == path or name.startswith(f"{path}.") for path in run.parameters)}
    metric = run.metrics[0]
    step = ((trial.get("metrics") or {}).get(metric) or {}).get("last_step", trial.get("step", 0))
    return f"best {trial['trial_id']}: {metric} {_html.plain(_value(trial, metric))} at step {step}" + (
        f" · {_html.in_words(config)}" if config else ""
    )


def _chosen(run: Run, best: Sequence[Mapping[str, Any]], rows_max: int) -> list[Mapping[str, Any]]:
    marked = {id(trial) for trial in best}
    rest = [trial for trial in run.trials.values() if id(trial) not in marked]
    active = [trial for trial in rest if _status(trial) in ("running", "paused")]
    others = sorted((trial for trial in rest if _status(trial) not in ("running", "paused")), key=lambda trial: _rank(run, trial))
    return [*best, *active, *others][:rows_max]


class Watch:
    """Follows a run, for a with statement around it. The runtime calls it as it calls volador.tune._custom.CallbackBridge."""

    name = "Watch"
    hooks = {"on_trial_start", "on_trial_result", "on_checkpoint", "on_trial_recover", "on_trial_error", "on_trial_complete", "on_experiment_end"}

    def __init__(self, name: str, space: Mapping[str, Any], metric: str | None, mode: str, objectives: Iterable[str]) -> None:
        metrics = list(objectives) or ([metric] if metric else [])
        self._run = Run(name, metrics, mode, variable_paths(space))
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._next_look = self._began + _NOTICES_S
        self._output = _notebook.LiveOutput(self._page)
        self.directory = ""

    def __enter__(self) -> Watch:
        self._output.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            if kind is not None and self._run.state in ("running", "finished"):
                self._run.state = "interrupted" if issubclass(kind, KeyboardInterrupt) else "failed"
            elif self._run.state == "running":
                self._run.state = "finished"
        self._output.__exit__(kind, error, trace)

    # ---- On the thread of the run's callbacks. An exception would end the run.

    def setup(self, name: str, directory: str, num_trials: int | None, resumed: bool) -> None:
        def take() -> None:
            self.directory = directory
            with self._lock:
                self._run.name, self._run.directory, self._run.planned = name, _html.display_path(directory), num_trials
            if resumed:  # Events of before are not told again.
                self._take_all(_core.load_analysis(directory))

        self._safely(take)

    def on_trial_result(self, trial: str, *_: Any) -> None:
        self._safely(lambda: self._take(json.loads(trial)))

    on_trial_start = on_checkpoint = on_trial_recover = on_trial_error = on_trial_complete = on_trial_result

    def on_experiment_end(self, analysis: Any) -> None:
        def take() -> None:
            best = best_of(analysis, self._run.metrics)
            with self._lock:
                self._run.best = best
                self._run.notices = list(analysis.notices)
                self._run.state = "interrupted" if analysis.interrupted else "finished"

        self._safely(take)

    def _safely(self, take: Callable[[], None]) -> None:
        try:
            take()
        except Exception as error:
            warnings.warn(f"the output of a run lacks a part of it: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=3)
        self._output.changed()

    def _take(self, trial: dict[str, Any]) -> None:
        with self._lock:
            self._run.trials[str(trial["trial_id"])] = trial

    def _take_all(self, analysis: Any) -> None:
        for trial in json.loads(analysis.as_json())["trials"]:
            trial.pop("results", None)
            self._take(trial)

    # ---- On the thread of the output.

    def _page(self) -> _html.Page:
        now = time.monotonic()
        if now >= self._next_look and self._run.state == "running" and self.directory:
            with contextlib.suppress(VoladorError):  # The file of its state is not written yet.
                self._run.notices = list(_core.load_analysis(self.directory).notices)
            self._next_look = time.monotonic() + max(_NOTICES_S, _notebook.COST_SHARE * (time.monotonic() - now))
        resources = ""
        if self._run.state == "running":
            with contextlib.suppress(VoladorError):
                resources = _html.resources(_core.cluster_resources(), _core.used_resources())
        with self._lock:
            run = dataclasses.replace(self._run, trials=dict(self._run.trials), seconds=now - self._began, resources=resources)
        return page_of(run)
