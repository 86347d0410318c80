"""Search in your own loop: ask and tell, or an objective that suggests its parameters while it runs."""

from __future__ import annotations

import bisect
import dataclasses
import json
import math
import random
import time
from typing import TYPE_CHECKING, Any

from volador import _core, _future, _html, _options, _task
from volador.exceptions import InvalidArgumentError
from volador.tune import _space
from volador.tune._functions import Functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_SHOWN_MAX = 20  # Trials in a notebook,
_ERRORS_MAX = 5  # and errors of trials.


class TrialPruned(Exception):
    """Raised by an objective whose trial.should_prune() is true: its last report counts as its value."""


@dataclasses.dataclass
class StudyTrial:
    """One evaluation. In an objective: suggest_*(), report(), should_prune()."""

    number: int
    params: dict[str, Any] = dataclasses.field(default_factory=dict)
    values: list[float] | None = None  # One for each mode.
    state: str = "running"  # Or complete, pruned, failed.
    intermediate: dict[int, float] = dataclasses.field(default_factory=dict)  # Reports by step.
    user_attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    duration: float = 0.0  # Seconds in the objective.
    error: str = ""
    # What its study knows; travels to where the objective runs.
    _proposed: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    _fixed: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)  # Of enqueue(), as in `params`.
    _domains: dict[str, _space.Domain] = dataclasses.field(default_factory=dict, repr=False)  # Of `params`.
    _seed: int = dataclasses.field(default=0, repr=False)
    _limits: _Limits | None = dataclasses.field(default=None, repr=False)

    @property
    def value(self) -> float | None:
        return self.values[0] if self.values and len(self.values) == 1 else None

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> float:
        """A real in [low, high]; a multiple of `step` from low on; uniform in its logarithm."""
        _check_range(name, low, high)
        if step is not None and log:
            raise InvalidArgumentError(f"suggest_float: {name}: step and log are both given; give one of them")
        if log and low <= 0:
            raise InvalidArgumentError(f"suggest_float: {name}: low is {low}; it must be above 0 with log=True")
        if step is not None:
            if not step > 0:
                raise InvalidArgumentError(f"suggest_float: {name}: step is {step}; expected more than 0")
            index = self._suggest(name, _space.randint(0, int((high - low) / step + 1e-9) + 1), lambda index: low + index * step, lambda value: round((value - low) / step))
            return float(low + index * step)
        if low == high:
            return float(self._fix(name, low))
        return float(self._suggest(name, (_space.loguniform if log else _space.uniform)(low, high)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """An integer in [low, high]."""
        _check_range(name, low, high)
        if step < 1 or (log and step != 1):
            raise InvalidArgumentError(f"suggest_int: {name}: step is {step}; expected 1 or more, and 1 with log=True")
        if log and low < 1:
            raise InvalidArgumentError(f"suggest_int: {name}: low is {low}; it must be at least 1 with log=True")
        if low == high:
            return int(self._fix(name, low))
        if log:
            return int(self._suggest(name, _space.lograndint(low, high + 1)))
        index = self._suggest(name, _space.randint(0, (high - low) // step + 1), lambda index: low + index * step, lambda value: (value - low) // step)
        return int(low + index * step)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """One of the choices, which may be any objects."""
        options = list(choices)
        if not options:
            raise InvalidArgumentError(f"suggest_categorical: {name}: choices is empty; expected at least one")
        return options[int(self._suggest(name, _space.choice(range(len(options))), lambda index: options[index], options.index))]

    def _fix(self, name: str, value: Any) -> Any:
        self.params[name] = value
        return value

    def _suggest(
        self, name: str, domain: _space.Domain, shown: Callable[[Any], Any] = lambda value: value, inner: Callable[[Any], Any] = lambda value: value
    ) -> Any:
        """A value of the domain: that of enqueue(), else that which the study proposes, else for a parameter that it does
        not know a random one. shown: the value for `params`; inner: the inverse."""
        if name in self._domains:
            if self._domains[name] != domain:
                raise InvalidArgumentError(f"trial {self.number}: {name} was suggested from {self._domains[name]!r} and then from {domain!r}; use one")
            return self._proposed[name]
        value = self._proposed.get(name)
        if name in self._fixed:
            try:
                value = inner(self._fixed[name])
            except (TypeError, ValueError):
                value = None
            if value is None or not _contains(domain, value):
                raise InvalidArgumentError(f"trial {self.number}: {name} was enqueued as {self._fixed[name]!r}, which the objective does not suggest")
            self._proposed[name] = value
        if value is None or not _contains(domain, value):
            value = _draw(domain, random.Random(f"{self._seed} {name}"))
            self._proposed[name] = value
        self._domains[name] = domain
        self.params[name] = shown(value)
        return value

    def report(self, value: float, step: int) -> None:
        """An intermediate value of the objective."""
        number = float(value)
        if step < 0:
            raise InvalidArgumentError(f"trial {self.number}: report: step is {step}; expected 0 or more")
        self.intermediate.setdefault(int(step), number)

    def should_prune(self) -> bool:
        """Whether the trial's reports so far are worse than the pruner's limit; the objective then raises TrialPruned."""
        return self._limits is not None and self._limits.stops(self.intermediate)

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keeps a value with the trial."""
        self.user_attrs[key] = value


def _check_range(name: str, low: float, high: float) -> None:
    if not low <= high:
        raise InvalidArgumentError(f"suggest: {name}: low is {low} and high is {high}; low must not be above high")


def _contains(domain: _space.Domain, value: Any) -> bool:
    if domain.kind == "choice":
        return value in domain.values
    if domain.kind in ("randint", "lograndint"):
        return isinstance(value, int) and domain.values[0] <= value < domain.values[1]
    return bool(domain.values[0] <= value <= domain.values[1])


def _draw(domain: _space.Domain, generator: random.Random) -> Any:
    low, high = domain.values[0], domain.values[-1]
    if domain.kind == "choice":
        return generator.choice(domain.values)
    if domain.kind == "randint":
        return generator.randrange(low, high)
    if domain.kind == "lograndint":
        return min(high - 1, max(low, int(math.exp(generator.uniform(math.log(low), math.log(high))))))
    if domain.kind == "loguniform":
        return min(high, math.exp(generator.uniform(math.log(low), math.log(high))))
    return generator.uniform(low, high)


@dataclasses.dataclass(frozen=True)
class _Limits:
    """Medians of the complete trials' reports by step, for trials that run elsewhere."""

    medians: dict[int, float]
    is_max: bool
    warmup_steps: int

    def stops(self, reports: dict[int, float]) -> bool:
        if not reports:
            return False
        step = max(reports)
        if step < self.warmup_steps or step not in self.medians:
            return False
        known = [value for value in reports.values() if not math.isnan(value)]
        if not known:
            return True
        best = max(known) if self.is_max else min(known)
        return best < self.medians[step] if self.is_max else best > self.medians[step]


@dataclasses.dataclass(frozen=True)
class MedianPruner:
    """Prunes a trial whose best report so far is worse than the median of the complete trials' reports at its step, once
    `startup_trials` are complete, from step `warmup_steps` on."""

    startup_trials: int = 5
    warmup_steps: int = 0



class _Reports:
    """Reports of the complete trials by step, in the order of their values."""

    def __init__(self) -> None:
        self._trials = 0
        self._values: dict[int, list[float]] = {}

    def add(self, trial: StudyTrial) -> None:
        self._trials += bool(trial.intermediate)
        for step, value in trial.intermediate.items():
            if not math.isnan(value):
                bisect.insort(self._values.setdefault(step, []), value)

    def limits(self, pruner: MedianPruner, is_max: bool) -> _Limits | None:
        if self._trials < pruner.startup_trials:
            return None
        medians = {step: (values[len(values) // 2] + values[(len(values) - 1) // 2]) / 2 for step, values in self._values.items()}
        return _Limits(medians, is_max, pruner.warmup_steps)


class Study:
    """A searcher for your own loop, without results on disk and processes of trials.

        study = Study(mode="min", searcher=tune.tpe(), seed=1)
        study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, 100)
        study.best_params, study.best_value

    mode: "min", "max", or a list of them for several values of an objective. space: as of tune.run, for ask() and
    tell(); an objective of optimize() may suggest its parameters instead, and the space grows with them. searcher: as
    of tune.run. pruner: MedianPruner(), or None."""

    def __init__(
        self,
        space: dict[str, Any] | None = None,
        *,
        mode: str | Sequence[str] = "min",
        searcher: str = "tpe",
        seed: int | None = None,
        pruner: MedianPruner | None = None,
    ) -> None:
        self._modes = [mode] if isinstance(mode, str) else list(mode)
        if not self._modes or any(each not in ("min", "max") for each in self._modes):
            raise InvalidArgumentError(f'Study: mode is {mode!r}; expected "min", "max" or a list of them')
        self._given_space = dict(space or {})
        self._grown: dict[str, _space.Domain] = {}  # Parameters that objectives suggested.
        self._searcher = searcher
        self._seed = random.SystemRandom().getrandbits(32) if seed is None else seed
        self._pruner = pruner
        self._reports = _Reports()
        self._indices: dict[int, int] = {}  # Of the core's open trials, by number.
        self._numbers: dict[int, int] = {}  # Of trials, by the core's index.
        self._queued: list[dict[str, Any]] = []
        self.trials: list[StudyTrial] = []
        self._is_stopped = False
        self._rebuild()

    # ---- Ask and tell.

    def ask(self) -> StudyTrial:
        """The next trial; any number may be open. Raises InvalidArgumentError where the searcher has no further one."""
        trial = StudyTrial(len(self.trials), _seed=hash((self._seed, len(self.trials))))
        if self._queued:
            config = self._queued.pop(0)
            if self._given_space:
                trial._proposed = config
                self._open(trial, self._core.enqueue(json.dumps(config)))
            else:  # The objective says what the values are of.
                trial._fixed = config
        else:
            index, config_json = self._core.ask()
            self._open(trial, index)
            trial._proposed = json.loads(config_json)
        if self._given_space:
            trial.params = trial._proposed
        if self._pruner is not None:
            trial._limits = self._reports.limits(self._pruner, self._modes[0] == "max")
        self.trials.append(trial)
        return trial

    def _open(self, trial: StudyTrial, index: int) -> None:
        self._indices[trial.number] = index
        self._numbers[index] = trial.number

    def tell(self, trial: StudyTrial, value: float | Sequence[float] | None) -> None:
        """Ends a trial with its value, or one value for each mode. None or NaN: it failed."""
        if trial.number >= len(self.trials) or self.trials[trial.number].state != "running":
            raise InvalidArgumentError(f"Study.tell: trial {trial.number} is not open; tell each trial that ask() gave once")
        given: Any = value if isinstance(value, (list, tuple)) else [value]
        values = None if value is None else [float(each) for each in given]
        if values is not None and len(values) != len(self._modes):
            raise InvalidArgumentError(f"Study.tell: trial {trial.number} has {len(values)} values; expected {len(self._modes)}, one for each mode")
        if values is not None and any(math.isnan(each) for each in values):
            values = None
        self._end(trial, values, "failed" if values is None else "complete")

    def _end(self, trial: StudyTrial, values: list[float] | None, state: str) -> None:
        trial.values, trial.state = values, state
        self.trials[trial.number] = trial
        if state == "complete" and self._pruner is not None:
            self._reports.add(trial)
        new = {name: domain for name, domain in trial._domains.items() if name not in self._grown}
        index = self._indices.pop(trial.number, None)
        if new and not self._given_space:
            self._grown.update(new)
            self._rebuild()
        elif index is not None:
            self._core.tell(index, values, [])
        elif values is not None:
            self._replay(trial)

    def _rebuild(self) -> None:
        """A core with the present space, which has seen all complete trials. Open ones are added when they end."""
        space = self._given_space or self._grown
        functions = Functions(space)
        text = _space.to_json(space, functions)
        self._core: Any = _core.Study(text, self._modes, 0, self._searcher, self._seed & 0xFFFFFFFF, functions or None)
        self._indices.clear()
        self._numbers.clear()
        for trial in self.trials:
            if trial.values is not None:
                self._replay(trial)

    def _replay(self, trial: StudyTrial) -> None:
        config = trial._proposed if self._given_space else self._whole(trial)
        index = self._core.enqueue(json.dumps(config))
        self._numbers[index] = trial.number
        self._core.tell(index, trial.values, [])

    def _whole(self, trial: StudyTrial) -> dict[str, Any]:
        """The trial's values of all known parameters, with random ones for those that it did not suggest."""
        generator = random.Random(trial._seed)
        return {
            name: trial._proposed[name] if trial._domains.get(name) == domain else _draw(domain, generator) for name, domain in self._grown.items()
        }

    def enqueue(self, params: Mapping[str, Any]) -> None:
        """A later ask() gives these parameters, as they are in trial.params."""
        self._queued.append(dict(params))

    def add(self, config: Mapping[str, Any], value: float | Sequence[float]) -> None:
        """A trial of an earlier run, with a space that was given."""
        self.enqueue(config)
        self.tell(self.ask(), value)

    # ---- Objectives.

    def optimize(
        self,
        objective: Callable[[StudyTrial], float | Sequence[float]],
        num_trials: int | None = None,
        *,
        timeout: float | None = None,
        num_jobs: int = 1,
        catch: type[Exception] | tuple[type[Exception], ...] = (),
        callbacks: Sequence[Callable[[Study, StudyTrial], object]] = (),
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        """Calls objective(trial) until num_trials have ended, `timeout` seconds have passed or stop() was called.

        num_jobs: 1 runs in this process; more run as tasks of the cluster, so many at once, with `resources` as options
        of volador.task. catch: exceptions after which only the trial has failed; others end this call. An objective
        that raises TrialPruned ends its trial with its last report. callbacks: called after each trial."""
        if num_trials is None and timeout is None:
            raise InvalidArgumentError("Study.optimize: num_trials and timeout are both None; give one of them")
        if num_jobs < 1:
            raise InvalidArgumentError(f"Study.optimize: num_jobs is {num_jobs}; expected 1 or more")
        end = None if timeout is None else time.monotonic() + timeout
        left = num_trials
        self._is_stopped = False
        task = None
        if num_jobs > 1:
            given = _options.TaskOptions.of({"max_retries": 0, **(resources or {})})
            task = _task.Task(_Objective(objective), given)
        under_way: dict[Any, StudyTrial] = {}
        try:
            while True:
                over = self._is_stopped or (end is not None and time.monotonic() >= end) or (left is not None and left <= 0)
                if over and not under_way:
                    return
                if not over and len(under_way) < num_jobs:
                    left = None if left is None else left - 1
                    trial = self.ask()
                    if task is None:
                        self._finish(_evaluate(objective, trial), catch, callbacks)
                    else:
                        under_way[task.remote(trial)] = trial
                    continue
                ready, _ = _future.wait(list(under_way))
                trial = under_way.pop(ready[0])
                self._finish(ready[0].result(), catch, callbacks)  # type: ignore[union-attr]
        finally:
            for future, trial in under_way.items():
                _future.cancel(future)
                self._end(trial, None, "failed")

    def _finish(self, ended: tuple[StudyTrial, Any, BaseException | None], catch: Any, callbacks: Sequence[Callable[[Study, StudyTrial], object]]) -> None:
        trial, value, error = ended
        if isinstance(error, TrialPruned):
            last = trial.intermediate[max(trial.intermediate)] if trial.intermediate else None
            usable = last is not None and not math.isnan(last) and len(self._modes) == 1
            self._end(trial, [last] if usable and last is not None else None, "pruned")
        elif error is not None:
            trial.error = f"{type(error).__name__}: {error}"
            self._end(trial, None, "failed")
            if not isinstance(error, catch):
                raise error
        else:
            try:
                self.tell(trial, value)
            except (TypeError, ValueError) as wrong:
                self._end(trial, None, "failed")
                raise InvalidArgumentError(f"Study.optimize: the objective returned {value!r}; expected a number, or one for each mode ({wrong})") from None
        for callback in callbacks:
            callback(self, trial)

    def stop(self) -> None:
        """From a callback: optimize() returns once the trials under way have ended."""
        self._is_stopped = True

    # ---- Results.

    @property
    def best_trial(self) -> StudyTrial:
        """The complete trial with the best value, the first of equal ones. Raises ValueError if there is none."""
        if len(self._modes) > 1:
            raise ValueError("Study.best_trial: the study has several modes; best_trials has those that no other is better than")
        complete = [trial for trial in self.trials if trial.state == "complete" and trial.values is not None]
        if not complete:
            raise ValueError("Study.best_trial: no trial is complete")
        sign = 1.0 if self._modes[0] == "min" else -1.0
        return min(complete, key=lambda trial: sign * trial.values[0])  # type: ignore[index]

    @property
    def best_value(self) -> float:
        return self.best_trial.values[0]  # type: ignore[index]

    @property
    def best_params(self) -> dict[str, Any]:
        return self.best_trial.params

    @property
    def best_trials(self) -> list[StudyTrial]:
        """The complete trials that no other dominates; with one mode all with the best value."""
        if len(self._modes) > 1:
            return [self.trials[number] for number in sorted(self._numbers[index] for index in self._core.front())]
        complete = [trial for trial in self.trials if trial.state == "complete"]
        best = self.best_trial.values if complete else None
        return [trial for trial in complete if trial.values == best]

    def trials_dataframe(self) -> Any:
        """All trials as a pandas.DataFrame: number, state, value, duration, params_<name>, user_attrs_<name>."""
        import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

        rows = []
        for trial in self.trials:
            values = trial.values or [None] * len(self._modes)  # type: ignore[list-item]
            named = {"value": values[0]} if len(values) == 1 else {f"values_{index}": each for index, each in enumerate(values)}
            rows.append(
                {
                    "number": trial.number,
                    **named,
                    "state": trial.state.upper(),
                    "duration": trial.duration,
                    **{f"params_{name}": value for name, value in trial.params.items()},
                    **{f"user_attrs_{name}": value for name, value in trial.user_attrs.items()},
                }
            )
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        return f"<volador.tune.Study of {len(self.trials)} trials, {self._searcher}>"

    def _repr_html_(self) -> str:
        complete = any(trial.state == "complete" for trial in self.trials)
        best = {trial.number for trial in self.best_trials} if complete else set()
        chosen = sorted(self.trials, key=lambda trial: (trial.number not in best, -trial.number))[:_SHOWN_MAX]  # The best, then the newest.
        names = list(dict.fromkeys(name for trial in chosen for name in trial.params))
        values = ["value"] if len(self._modes) == 1 else [f"value {index}" for index in range(len(self._modes))]
        unknown: list[float | None] = [None] * len(values)
        rows = [
            _html.Row(
                [trial.number, _html.State(trial.state), *(trial.values or unknown), *(trial.params.get(name) for name in names)],
                is_best=trial.number in best,
            )
            for trial in chosen
        ]
        left_out = len(self.trials) - len(chosen)
        failed = [(f"trial {trial.number}", trial.error) for trial in self.trials if trial.error]
        return _html.page(
            _html.Page(
                title="Study",
                facts=[f"{_html.counted(len(self.trials), 'trial')}: {_html.counts(trial.state for trial in self.trials)}" if self.trials else "no trials", self._searcher],
                tables=[_html.Table(["trial", "state", *values, *names], rows, f"… {left_out} more" if left_out else "")],
                errors=failed[-_ERRORS_MAX:],
                errors_left_out=len(failed) - _ERRORS_MAX,
            )
        )


class _Objective:
    """An objective as the function of a task."""

    def __init__(self, objective: Callable[[StudyTrial], Any]) -> None:
        self._objective = objective
        self.__name__ = self.__qualname__ = str(getattr(objective, "__qualname__", "objective"))

    def __call__(self, trial: StudyTrial) -> tuple[StudyTrial, Any, BaseException | None]:
        return _evaluate(self._objective, trial)


def _evaluate(objective: Callable[[StudyTrial], Any], trial: StudyTrial) -> tuple[StudyTrial, Any, BaseException | None]:
    began = time.monotonic()
    value, caught = None, None
    try:
        value = objective(trial)
    except Exception as error:
        caught = error
    trial.duration = time.monotonic() - began
    return trial, value, caught
