"""Searchers, schedulers and callbacks of users, and what stands between them and the runtime: the extension calls the
methods of the Bridge classes (python-bindings/core/tune_custom.cc) with plain values, on the threads of a run."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import time
from typing import TYPE_CHECKING, Any, Literal

from volador import _core
from volador.exceptions import InvalidArgumentError
from volador.tune import _space
from volador.tune._functions import Functions
from volador.tune._stop import Stopper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from volador.tune import Analysis, Checkpoint, Trial
    from volador.tune._progress import Watch


class _Wait:
    def __repr__(self) -> str:
        return "volador.tune.WAIT"


WAIT = _Wait()
"""What Searcher.suggest() returns when it has no configuration now but may have one later."""


class Searcher:
    """Base of searchers of your own, given to run(searcher=…). One run uses an object, from one thread.

    Before setup() the run sets space (as it was given to run), metric, mode, num_samples (-1: no end) and seed. A trial_id
    is the number of the suggestion as text, "0", "1", …; it is the index of the trial unless configurations were added."""

    space: dict[str, Any]
    metric: str | None
    mode: str
    num_samples: int
    seed: int

    learns: bool = True
    """Whether results influence suggestions: then few are asked for in advance."""

    def setup(self) -> None:
        """Called first, once; in a resumed run too, before restore()."""

    def suggest(self, trial_id: str) -> dict[str, Any] | _Wait | None:
        """The configuration of a trial; constants of the space are added to it. WAIT: asked again within 50 ms, and after
        each result. None: there are no more trials."""
        raise NotImplementedError(f"{type(self).__name__} has no suggest(trial_id), which returns a configuration, tune.WAIT or None")

    def on_start(self, trial_id: str, config: dict[str, Any]) -> None:
        """The trial runs with this configuration instead of the suggested one: after a resume, if suggest() would now return
        another one; or a user has added it to the run, then the trial_id is far beyond those of suggestions."""

    def on_result(self, trial_id: str, result: dict[str, float]) -> None:
        """Called for each report of a trial."""

    def on_complete(self, trial_id: str, result: dict[str, float] | None, error: bool) -> None:
        """The trial has ended; result is its last report. error: it failed or reported nothing, and result is None."""

    def save(self) -> Any:
        """The state as bytes or a JSON value, for restore(); None: it is not saved. Called often: after suggestions and results."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        """Takes the state of save(), in a resumed run, after setup()."""
        raise NotImplementedError

    def sample(self, index: int) -> dict[str, Any]:
        """A random configuration of the space: a function of the run's seed and the index."""
        return sample(self.space, seed=self.seed, index=index)


def sample(space: dict[str, Any], *, seed: int = 0, index: int = 0) -> dict[str, Any]:
    """One configuration drawn from a space: a function of the arguments, as random_search() draws it."""
    functions = Functions(space)
    text = _space.to_json(space, functions)
    config: dict[str, Any] = json.loads(_core.tune_sample(text, seed, index, functions or None))
    return config


class AskTell(Searcher):
    """A searcher from an object with ask() and tell(point, value), which is minimised unless mode is "max".

    config: makes the configuration from a point; by default the point itself or its params, kwargs or config. on_error:
    the value told for failed trials; None: they are not told. An object that can be pickled is saved with the run; another
    one is asked again in a resumed run, and told of the points that ran where its points are dictionaries."""

    def __init__(
        self, optimizer: Any, *, mode: str = "min", config: Callable[[Any], dict[str, Any]] | None = None, on_error: float | None = None
    ) -> None:
        if mode not in ("max", "min"):
            raise InvalidArgumentError(f'AskTell: mode is {mode!r}; expected "max" or "min"')
        for method in ("ask", "tell"):
            if not callable(getattr(optimizer, method, None)):
                raise InvalidArgumentError(f"AskTell: {type(optimizer).__name__} has no method {method}()")
        self.optimizer: Any = optimizer
        self.optimizer_mode: str = mode
        self.config = config
        self.on_error = on_error
        self.points: dict[str, Any] = {}

    def setup(self) -> None:
        if self.metric is None:
            raise InvalidArgumentError("metric: AskTell tells the optimizer the value of a metric; name one that the trials report")

    def suggest(self, trial_id: str) -> dict[str, Any] | _Wait | None:
        point = self.optimizer.ask()
        if point is None:
            return None
        self.points[trial_id] = point
        return self._config_of(point)

    def on_complete(self, trial_id: str, result: dict[str, float] | None, error: bool) -> None:
        point = self.points.pop(trial_id, None)
        value = None if result is None or self.metric is None else result.get(self.metric)
        if point is None:
            return
        if value is not None:
            self.optimizer.tell(point, value if self.mode == self.optimizer_mode else -value)
        elif self.on_error is not None:
            self.optimizer.tell(point, self.on_error)

    def on_start(self, trial_id: str, config: dict[str, Any]) -> None:
        point = self.points.pop(trial_id, None)
        if isinstance(point, dict) and self.config is None:
            self.points[trial_id] = {name: config[name] for name in point if name in config}

    def save(self) -> Any:
        try:
            return pickle.dumps((self.optimizer, self.points))
        except (pickle.PicklingError, TypeError, AttributeError):
            return None

    def restore(self, state: Any) -> None:
        self.optimizer, self.points = pickle.loads(state)

    def _config_of(self, point: Any) -> dict[str, Any]:
        if self.config is not None:
            return self.config(point)
        for candidate in (point, *(getattr(point, name, None) for name in ("params", "kwargs", "config"))):
            if isinstance(candidate, dict):
                return candidate
        raise InvalidArgumentError(
            f"AskTell: ask() of {type(self.optimizer).__name__} returned a {type(point).__name__}; give config=, a function that makes a dictionary of it"
        )


CONTINUE: Literal["continue"] = "continue"
CHECKPOINT: Literal["checkpoint"] = "checkpoint"
PAUSE: Literal["pause"] = "pause"
STOP: Literal["stop"] = "stop"
_DECISIONS = {CONTINUE: 0, STOP: 1, PAUSE: 3, CHECKPOINT: 4}  # tune::Decision.
_CLONE = 5

_Order = tuple[str, str, str, str]  # "resume", "stop" or "copy", the trial, and for a copy its source and its configuration.


class Scheduler:
    """Base of schedulers of your own, given to run(scheduler=…). One run uses an object, from one thread.

    Before setup() the run sets metric, mode and seed. A trial is the same object in all calls; its status is "waiting",
    "running", "paused" or "ended", and checkpoint_step is the step of its last checkpoint, 0 without one."""

    metric: str | None
    mode: str
    seed: int

    copies: bool = False
    """Whether copy() may be called: configurations then change, and searchers that learn from them are refused."""

    def setup(self) -> None:
        """Called first, once; in a resumed run too, before restore()."""

    def on_trial_add(self, trial: Trial) -> None:
        """A trial exists; it starts when there is room."""

    def on_trial_result(self, trial: Trial, result: dict[str, float]) -> str:
        """CONTINUE, CHECKPOINT (the trial saves a checkpoint and goes on), PAUSE (it saves a checkpoint and leaves its place
        until resume() or copy()) or STOP."""
        return CONTINUE

    def on_checkpoint(self, trial: Trial, step: int) -> None:
        """A checkpoint of the trial is complete."""

    def on_trial_copied(self, trial: Trial, source: Trial, step: int) -> None:
        """copy() was done: the trial goes on after this step. Not called if it failed; the trial then goes on as it is."""

    def on_trial_complete(self, trial: Trial, result: dict[str, float]) -> None:
        """The trial has ended for any reason but an error; result is its last report."""

    def on_trial_error(self, trial: Trial) -> None:
        """The trial has failed for good."""

    def on_no_more_trials(self) -> None:
        """No trial is added before a paused one goes on; without a resume() the runtime resumes the first of them."""

    def save(self) -> Any:
        """The state as bytes or a JSON value, for restore(); None: it is not saved. Called often: after results."""
        raise NotImplementedError

    def restore(self, state: Any, trials: dict[str, Trial]) -> None:
        """Takes the state of save(), in a resumed run, after setup(). trials: those of that time by trial_id, as in the calls."""
        raise NotImplementedError

    def resume(self, trial: Trial) -> None:
        """Lets a paused trial go on when there is room."""
        self._orders.append(("resume", trial.trial_id, "", ""))
        if trial.status == "paused":
            trial.status = "waiting"

    def stop(self, trial: Trial) -> None:
        """Ends another trial: at its next report if it is running."""
        self._orders.append(("stop", trial.trial_id, "", ""))

    def copy(self, trial: Trial, source: Trial, config: dict[str, Any] | None = None) -> None:
        """The trial goes on from the last checkpoint of another one, with this configuration; None: that of the source.

        trial: the one whose result on_trial_result() is told, which then returns CONTINUE, or a paused one. A paused trial may
        be its own source: then only its configuration changes. Needs copies = True in the class."""
        if not self.copies:
            raise InvalidArgumentError(f"copy(): {type(self).__name__} does not say that it copies trials; write copies = True in the class")
        reports = trial.trial_id == self.__dict__.get("_reporting")
        if trial.status != "paused" and (not reports or source is trial):
            raise InvalidArgumentError(
                f"copy(): trial {trial.trial_id} is {trial.status}; expected a paused trial"
                + (", since it is its own source" if source is trial else ", or the one whose result on_trial_result() is told")
                + "; return tune.PAUSE for it, and call copy() later"
            )
        if source is not trial and source.checkpoint_step == 0:
            raise InvalidArgumentError(
                f"copy(): trial {source.trial_id}, which is to be copied, has no checkpoint: its checkpoint_step is 0; return tune.CHECKPOINT for it, or give "
                "run() checkpoint_frequency"
            )
        if config is not None and _space.has_domain(config):
            raise InvalidArgumentError(f"copy(): the configuration {config!r} has a domain; expected values")
        self._orders.append(("copy", trial.trial_id, source.trial_id, _space.to_json(source.config if config is None else config)))
        trial.status = "waiting"

    @property
    def _orders(self) -> list[_Order]:
        orders: list[_Order] = self.__dict__.setdefault("_orders_of_run", [])
        return orders


class Callback:
    """Base of callbacks, given to run(callbacks=[…]). The calls of a run come on a thread of their own, in the order of
    events; the trial is as it was then. An exception ends the run: run() raises it, and resume goes on."""

    def setup(self, name: str, directory: str, num_trials: int | None, resumed: bool) -> None:
        """Called first. num_trials: None: no end. resumed: events of before are not told again."""

    def on_trial_start(self, trial: Trial) -> None:
        """An attempt of the trial has started."""

    def on_trial_restore(self, trial: Trial, checkpoint: Checkpoint) -> None:
        """Called directly after on_trial_start() if the attempt goes on from a checkpoint."""

    def on_trial_result(self, trial: Trial, result: dict[str, float]) -> None:
        """Called for each report."""

    def on_checkpoint(self, trial: Trial, checkpoint: Checkpoint) -> None:
        """The checkpoint is complete and on this machine."""

    def on_trial_recover(self, trial: Trial) -> None:
        """An attempt failed (trial.error), and another one follows."""

    def on_trial_error(self, trial: Trial) -> None:
        """The trial has failed for good: trial.error."""

    def on_trial_complete(self, trial: Trial) -> None:
        """The trial has ended without failing."""

    def on_experiment_end(self, analysis: Analysis) -> None:
        """Called last, even if the run ended with an error."""


def text_of(error: BaseException) -> str:
    """Of an exception that ends a run."""
    return f"{type(error).__name__}: {error}"


def _overridden(target: Any, base: type, names: set[str]) -> set[str]:
    """The methods of the base that the object's class has in another form."""
    return {name for name in names if getattr(type(target), name, None) not in (None, getattr(base, name))}


_ENDED = "of a tuning run, which it has ended"


class _Inside:
    """Notes in an exception which method of which class raised it."""

    __slots__ = ("method", "target")

    def __init__(self, target: Any, method: str) -> None:
        self.target = target
        self.method = method

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and hasattr(error, "add_note"):  # From Python 3.11 on.
            where = getattr(self.target, "__qualname__", None) or f"{type(self.target).__name__}.{self.method}"
            error.add_note(f"It was raised in {where}() {_ENDED}.")


class _Kept:
    """The saved state of a user's object: a file in the directory of the run.

    The file says how many calls of the journal its state includes. In a resumed run these are left out of the replay; an
    object that cannot be saved gets all of them again."""

    def __init__(self, target: Any, base: type, what: str) -> None:
        self.target = target
        self.file = f"{what}.state.json"
        own = _overridden(target, base, {"save", "restore"})
        if len(own) == 1:
            there = own.pop()
            lacking = "restore" if there == "save" else "save"
            raise InvalidArgumentError(f"{what}: {type(target).__name__} has {there}() but not {lacking}(); a run is saved and resumed by both")
        self.saves = bool(own)
        self.calls = 0  # That change the state.
        self.suggestions = 0
        self.changed = False
        self.restored = False
        self.skip_calls = 0
        self.skip_suggestions = 0
        self.trials: dict[str, Any] = {}  # Of a scheduler, by id: what was saved.
        self._cost = 0.0  # Seconds of the last save,
        self._last = 0.0  # which ended then.

    def load(self, directory: str | None) -> Any:
        """The state to restore, as a tuple of one value; None: there is none."""
        if not self.saves or directory is None:
            return None
        try:
            with open(os.path.join(directory, self.file), encoding="utf-8") as file:
                saved = json.load(file)
        except FileNotFoundError:
            return None
        if saved["class"] != type(self.target).__qualname__:
            raise InvalidArgumentError(f"resume: {self.file} was saved by {saved['class']}, and this run has {type(self.target).__qualname__}")
        self.restored = True
        self.skip_calls, self.skip_suggestions = saved["calls"], saved["suggestions"]
        self.trials = saved["trials"]
        return (base64.b64decode(saved["bytes"]) if "bytes" in saved else saved["json"],)

    def skips(self) -> bool:
        """Counts a call; whether the restored state includes it."""
        self.calls += 1
        self.changed = self.calls > self.skip_calls
        return not self.changed

    def check_caught_up(self, directory: str) -> None:
        if self.calls < self.skip_calls or self.suggestions < self.skip_suggestions:
            raise InvalidArgumentError(
                f"resume: {os.path.join(directory, self.file)} is newer than the journal beside it, as after a power failure; delete that file, and the calls "
                "of the journal are repeated instead"
            )

    def save(self, directory: str, last: bool, trials: Callable[[], dict[str, Any]]) -> None:
        """Writes the file if there is something new. It takes at most a twentieth of the time, but for the last one."""
        now = time.monotonic()
        if not self.saves or not self.changed or self.calls < self.skip_calls or (now - self._last < 20 * self._cost and not last):
            return
        with _Inside(self.target, "save"):
            state = self.target.save()
            if state is None:
                self.saves = False
                return
            saved: dict[str, Any] = {
                "class": type(self.target).__qualname__,
                "calls": self.calls,
                "suggestions": self.suggestions,
                "trials": trials(),
            }
            if isinstance(state, (bytes, bytearray)):
                saved["bytes"] = base64.b64encode(state).decode()
            else:
                saved["json"] = state
            text = json.dumps(saved)
        path = os.path.join(directory, self.file)
        with open(path + ".partial", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".partial", path)
        self.changed = False
        self._last = time.monotonic()
        self._cost = self._last - now


class SearcherBridge:
    """Between the runtime and a user's searcher."""

    def __init__(self, searcher: Searcher, space: dict[str, Any]) -> None:
        self.target = searcher
        self.name = type(searcher).__name__
        self.hooks = _overridden(searcher, Searcher, {"on_start", "on_result", "on_complete"})
        self.kept = _Kept(searcher, Searcher, "searcher")
        self.constants = _space.constants_of(space)
        self.functions = _space.functions_of(space)
        self.directory: str | None = None
        searcher.space = space

    @property
    def learns(self) -> bool:
        return bool(self.target.learns)

    def begin(self, metric: str, mode: str, seed: int, num_samples: int, directory: str | None) -> None:
        target = self.target
        target.metric, target.mode, target.seed, target.num_samples = metric or None, mode, seed, num_samples
        self.directory = directory
        with _Inside(target, "setup"):
            target.setup()
        state = self.kept.load(directory)
        if state is not None:
            with _Inside(target, "restore"):
                target.restore(state[0])

    def suggest(self, index: int, replaying: bool) -> str | bool | None:
        """A configuration, None: no more, False: not now, True: the restored state includes it."""
        kept = self.kept
        if index < kept.skip_suggestions:
            kept.suggestions = max(kept.suggestions, index + 1)
            return True
        if kept.calls < kept.skip_calls and replaying:
            return False
        if not replaying and self.directory is not None:
            kept.check_caught_up(self.directory)
        with _Inside(self.target, "suggest"):
            config = self.target.suggest(str(index))
            if config is None:
                return None
            if config is WAIT:
                return False
            if not isinstance(config, dict):
                raise TypeError(f"suggest() returned a {type(config).__name__}; expected a configuration (a dictionary), tune.WAIT, or None for the end")
            for name, value in config.items():
                if _space.has_domain(value):
                    raise TypeError(f"suggest() returned {value!r} as the value of {name}; expected a value that is drawn from it")
            text = _space.to_json(_space.merged(self.constants, config))
        if self.functions:
            text = json.dumps(sample(_space.merged(self.functions, json.loads(text)), seed=self.target.seed, index=index))
        kept.suggestions = index + 1
        kept.changed = True
        return text

    def on_start(self, index: int, config: str, replaying: bool) -> None:
        """replaying: the trial of the journal has another configuration than suggest() has returned now."""
        if index < self.kept.skip_suggestions:
            return
        if "on_start" in self.hooks:
            with _Inside(self.target, "on_start"):
                self.target.on_start(str(index), json.loads(config))
            self.kept.changed = True
        elif replaying and not self.kept.restored:
            saves = f"start a new run, since {self.kept.file} is not there" if self.kept.saves else f"give {self.name} the methods save() and restore(state)"
            raise InvalidArgumentError(
                f"resume: {self.name}.suggest() returns another configuration for trial {index} than in the run: {config} was run. Draw from "
                f"self.seed only; or {saves}; or write on_start(trial_id, config), which is told the configuration that runs"
            )

    def on_result(self, index: int, result: dict[str, float]) -> None:
        if not self.kept.skips():
            with _Inside(self.target, "on_result"):
                self.target.on_result(str(index), result)

    def on_complete(self, index: int, result: dict[str, float] | None) -> None:
        if not self.kept.skips():
            with _Inside(self.target, "on_complete"):
                self.target.on_complete(str(index), result, result is None)


class SchedulerBridge:
    """Between the runtime and a user's scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.target = scheduler
        self.name = type(scheduler).__name__
        self.hooks = {"on_checkpoint"} | _overridden(scheduler, Scheduler, {"on_no_more_trials"})
        self.kept = _Kept(scheduler, Scheduler, "scheduler")
        self.trials: dict[str, Trial] = {}

    @property
    def copies(self) -> bool:
        return bool(self.target.copies)

    def begin(self, metric: str, mode: str, seed: int, directory: str | None) -> None:
        target = self.target
        target.metric, target.mode, target.seed = metric or None, mode, seed
        with _Inside(target, "setup"):
            target.setup()
        state = self.kept.load(directory)
        if state is not None:
            for trial_id, (config, status, last_result, checkpoint_step) in self.kept.trials.items():
                self._trial(trial_id, config, status, last_result).checkpoint_step = checkpoint_step
            with _Inside(target, "restore"):
                target.restore(state[0], dict(self.trials))

    def on_trial_add(self, trial_id: str, config: str) -> list[_Order]:
        if self.kept.skips():
            return []
        trial = self._trial(trial_id, json.loads(config), "waiting", {})
        with _Inside(self.target, "on_trial_add"):
            self.target.on_trial_add(trial)
        return self._orders()

    def on_trial_result(self, trial_id: str, result: dict[str, float]) -> tuple[int, list[_Order]]:
        """A tune::Decision, and orders for other trials."""
        if self.kept.skips():
            return 0, []
        trial = self.trials[trial_id]
        trial.status, trial.last_result = "running", result
        with _Inside(self.target, "on_trial_result"):
            self.target.__dict__["_reporting"] = trial_id
            try:
                decision = self.target.on_trial_result(trial, result)
            finally:
                self.target.__dict__["_reporting"] = None
            number = _DECISIONS.get(decision)
            if number is None:
                raise TypeError(f"on_trial_result() returned {decision!r}; expected tune.CONTINUE, tune.CHECKPOINT, tune.PAUSE or tune.STOP")
            orders = self._orders()
            if any(what == "copy" and who == trial_id for what, who, _, _ in orders):
                if decision != CONTINUE:
                    raise TypeError(f"on_trial_result() returned {decision!r} for a trial that it made a copy of another one; expected tune.CONTINUE")
                return _CLONE, orders
        if decision == PAUSE:
            trial.status = "paused"
        return number, orders

    def on_checkpoint(self, trial_id: str, step: int) -> list[_Order]:
        if self.kept.skips():
            return []
        self.trials[trial_id].checkpoint_step = step
        with _Inside(self.target, "on_checkpoint"):
            self.target.on_checkpoint(self.trials[trial_id], step)
        return self._orders()

    def on_trial_copied(self, trial_id: str, source_id: str, config: str, step: int) -> list[_Order]:
        if self.kept.skips():
            return []
        trial = self.trials[trial_id]
        trial.config, trial.checkpoint_step, trial.status = json.loads(config), step, "waiting"
        with _Inside(self.target, "on_trial_copied"):
            self.target.on_trial_copied(trial, self.trials[source_id], step)
        return self._orders()

    def on_trial_end(self, trial_id: str, failed: bool) -> list[_Order]:
        if self.kept.skips():
            return []
        trial = self.trials[trial_id]
        trial.status = "ended"
        with _Inside(self.target, "on_trial_error" if failed else "on_trial_complete"):
            if failed:
                self.target.on_trial_error(trial)
            else:
                self.target.on_trial_complete(trial, trial.last_result)
        return self._orders()

    def on_no_more_trials(self) -> list[_Order]:
        if self.kept.skips():
            return []
        with _Inside(self.target, "on_no_more_trials"):
            self.target.on_no_more_trials()
        return self._orders()

    def saved_trials(self) -> dict[str, Any]:
        return {trial.trial_id: (trial.config, trial.status, trial.last_result, trial.checkpoint_step) for trial in self.trials.values()}

    def _trial(self, trial_id: str, config: dict[str, Any], status: str, last_result: dict[str, float]) -> Trial:
        from volador.tune import Trial

        trial = Trial({"trial_id": trial_id, "config": config, "status": status, "last_result": last_result}, "")
        self.trials[trial_id] = trial
        return trial

    def _orders(self) -> list[_Order]:
        orders = self.target._orders
        taken = list(orders)
        orders.clear()
        return taken


class CallbackBridge:
    """Between the runtime and a user's callback."""

    def __init__(self, callback: Callback) -> None:
        self.target = callback
        self.name = type(callback).__name__
        self.hooks = _overridden(callback, Callback, {name for name in vars(Callback) if name.startswith("on_")})
        self.directory = ""

    def setup(self, name: str, directory: str, num_trials: int | None, resumed: bool) -> None:
        self.directory = directory
        if type(self.target).__dict__.get("setup") is not None or _overridden(self.target, Callback, {"setup"}):
            with _Inside(self.target, "setup"):
                self.target.setup(name, directory, num_trials, resumed)

    def on_trial_start(self, trial: str) -> None:
        self._tell("on_trial_start", self._trial(trial))

    def on_trial_restore(self, trial: str, location: str, step: int) -> None:
        self._tell("on_trial_restore", self._trial(trial), self._checkpoint(location, step))

    def on_trial_result(self, trial: str, result: dict[str, float]) -> None:
        self._tell("on_trial_result", self._trial(trial), result)

    def on_checkpoint(self, trial: str, location: str, step: int) -> None:
        self._tell("on_checkpoint", self._trial(trial), self._checkpoint(location, step))

    def on_trial_recover(self, trial: str) -> None:
        self._tell("on_trial_recover", self._trial(trial))

    def on_trial_error(self, trial: str) -> None:
        self._tell("on_trial_error", self._trial(trial))

    def on_trial_complete(self, trial: str) -> None:
        self._tell("on_trial_complete", self._trial(trial))

    def on_experiment_end(self, analysis: Any) -> None:
        from volador.tune import Analysis

        self._tell("on_experiment_end", Analysis(analysis))

    def _tell(self, method: str, *arguments: Any) -> None:
        with _Inside(self.target, method):
            getattr(self.target, method)(*arguments)

    def _trial(self, fields: str) -> Trial:
        from volador.tune import Trial

        return Trial(json.loads(fields), self.directory)

    def _checkpoint(self, location: str, step: int) -> Checkpoint:
        from volador.tune import Checkpoint

        return Checkpoint(_core.unpacked_checkpoint(os.path.join(self.directory, location), step), step)


class StopFunction:
    """Between the runtime and a function that ends trials. all: it is the stop_all() of a stopper."""

    hooks: set[str] = set()

    def __init__(self, target: Any, all: bool) -> None:
        self.target = target
        self.all = all
        self.name = getattr(target, "__name__", type(target).__name__)

    def ends(self, trial_id: str, result: dict[str, float]) -> bool:
        with _Inside(self.target, "stop_all" if self.all else "__call__"):
            return bool(self.target.stop_all() if self.all else self.target(trial_id, result))


def stop_functions_of(stop: Any) -> list[StopFunction]:
    """Of a function or a stopper."""
    if not isinstance(stop, Stopper):
        return [StopFunction(stop, False)]
    own = _overridden(stop, Stopper, {"__call__", "stop_all"})
    return [StopFunction(stop, name == "stop_all") for name in ("__call__", "stop_all") if name in own]


class Custom:
    """The parts of a run that are Python code."""

    name = "Custom"
    hooks: set[str] = set()

    def __init__(
        self, space: Mapping[str, Any], searcher: Any, scheduler: Any, callbacks: Any, stop: list[Any], functions: Functions, watch: Watch | None
    ) -> None:
        self.functions = functions or None
        self.stop = [function for one in stop for function in stop_functions_of(one)]
        self.searcher = SearcherBridge(searcher, dict(space)) if isinstance(searcher, Searcher) else None
        self.scheduler = SchedulerBridge(scheduler) if isinstance(scheduler, Scheduler) else None
        self.directory = ""
        self.callbacks: list[CallbackBridge | Watch] = []
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise InvalidArgumentError(f"callbacks: {callback!r} is no object of a class that derives from tune.Callback")
            self.callbacks.append(CallbackBridge(callback))
        if watch is not None:
            self.callbacks.append(watch)

    def committed(self, directory: str, last: bool) -> None:
        """The journal has everything that led to the present states."""
        self.directory = directory
        if self.searcher is not None:
            self.searcher.kept.save(directory, last, dict)
        if self.scheduler is not None:
            self.scheduler.kept.save(directory, last, self.scheduler.saved_trials)


@contextlib.contextmanager
def resumable(custom: Custom | None) -> Iterator[None]:
    """Notes in an exception of a run's Python code how the run can go on."""
    try:
        yield
    except BaseException as error:
        directory = next((one for one in (custom.directory, *(each.directory for each in custom.callbacks)) if one), "") if custom else ""
        if directory and any(_ENDED in note for note in getattr(error, "__notes__", ())):
            error.add_note(f"What its trials have reported and saved is kept: tune.run(…, resume={directory!r}) goes on from there.")  # type: ignore[attr-defined, unused-ignore]
        raise


def functions_of_run(space: Mapping[str, Any]) -> Functions:
    """For the functions of the space and of the mutations of a run."""
    return Functions(space, f" {_ENDED}")


def custom_of(
    space: Mapping[str, Any], searcher: Any, scheduler: Any, callbacks: Any, stop: list[Any], functions: Functions, watch: Watch | None
) -> Custom | None:
    """None: the run has no Python code but its trainable. watch: told of the trials beside the callbacks. Raises
    InvalidArgumentError."""
    for option, given, base in (("searcher", searcher, Searcher), ("scheduler", scheduler, Scheduler)):
        if isinstance(given, (str, base)):
            continue
        if isinstance(given, type) and issubclass(given, base):
            raise InvalidArgumentError(f"{option}: the class {given.__name__} was given; expected an object, {given.__name__}(…)")
        more = "; an object with ask() and tell() is given as tune.AskTell(object)" if callable(getattr(given, "ask", None)) else ""
        raise InvalidArgumentError(
            f"{option}: expected one of volador.tune, its text form, or an object of a class that derives from tune.{base.__name__}, got a {type(given).__name__}{more}"
        )
    callbacks = list(callbacks)
    if isinstance(searcher, str) and isinstance(scheduler, str) and not callbacks and not stop and not functions and watch is None:
        return None
    return Custom(space, searcher, scheduler, callbacks, stop, functions, watch)
