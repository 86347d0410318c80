"""ray.tune.schedulers. Schedulers of your own derive from TrialScheduler or FIFOScheduler, as in Ray."""

from __future__ import annotations

from typing import Any, ClassVar

from volador import tune as _tune
from volador.compat.ray.tune._saved import restored, saved
from volador.compat.ray.tune.experiment import Trial
from volador.exceptions import InvalidArgumentError


class TrialScheduler:
    """Base of schedulers of your own. choose_trial_to_run() is asked while trials are paused; the others start in order."""

    CONTINUE: ClassVar[str] = "CONTINUE"
    PAUSE: ClassVar[str] = "PAUSE"
    STOP: ClassVar[str] = "STOP"
    NOOP: ClassVar[str] = "NOOP"

    metric: str | None = None
    mode: str | None = None

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Called first, with those of the run."""
        if self.metric is None:
            self.metric = metric
        if self.mode is None:
            self.mode = mode
        return True

    def on_trial_add(self, tune_controller: Controller, trial: Trial) -> None:
        pass

    def on_trial_error(self, tune_controller: Controller, trial: Trial) -> None:
        pass

    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no on_trial_result(tune_controller, trial, result), which returns CONTINUE, PAUSE or STOP")

    def on_trial_complete(self, tune_controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        pass

    def on_trial_remove(self, tune_controller: Controller, trial: Trial) -> None:
        pass

    def choose_trial_to_run(self, tune_controller: Controller) -> Trial | None:
        """A paused trial goes on when there is room; another answer changes nothing."""
        trials = tune_controller.get_trials()
        waiting = [trial for status in (Trial.PENDING, Trial.PAUSED) for trial in trials if trial.status == status]
        return waiting[0] if waiting else None

    def debug_string(self) -> str:
        return type(self).__name__

    def save(self, checkpoint_path: str) -> None:
        """Writes the state into a file, with restore() for resumed runs."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads what save() has written."""


class Controller:
    """What a scheduler sees of the run."""

    def __init__(self, adapter: _Adapter) -> None:
        self._adapter = adapter

    def get_trials(self) -> list[Trial]:
        return list(self._adapter.trials.values())

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.get_trials() if not trial.is_finished()]

    @property
    def trials(self) -> list[Trial]:
        return self.get_trials()

    def has_resources_for_trial(self, trial: Trial) -> bool:
        return True  # The runtime starts trials when there is room.

    def stop_trial(self, trial: Trial) -> None:
        self._adapter.stop(trial._trial)


class _Adapter(_tune.Scheduler):
    """Makes Ray's calls of Volador's."""

    _DECISIONS: ClassVar[dict[str, str]] = {"CONTINUE": _tune.CONTINUE, "NOOP": _tune.CONTINUE, "PAUSE": _tune.PAUSE, "STOP": _tune.STOP}

    def __init__(self, scheduler: TrialScheduler) -> None:
        self.scheduler = scheduler
        self.controller: Controller = Controller(self)
        self.trials: dict[str, Trial] = {}

    def setup(self) -> None:
        self.scheduler.set_search_properties(self.metric, self.mode)

    def on_trial_add(self, trial: _tune.Trial) -> None:
        self.trials[trial.trial_id] = Trial(trial)
        self.scheduler.on_trial_add(self.controller, self.trials[trial.trial_id])
        self._choose()

    def on_trial_result(self, trial: _tune.Trial, result: dict[str, float]) -> str:
        given = self.trials[trial.trial_id]
        decision = self.scheduler.on_trial_result(self.controller, given, {**result, "trial_id": trial.trial_id, "config": trial.config})
        self._choose()
        return self._DECISIONS.get(decision, decision)

    def on_trial_complete(self, trial: _tune.Trial, result: dict[str, float]) -> None:
        self.scheduler.on_trial_complete(self.controller, self.trials[trial.trial_id], {**result, "trial_id": trial.trial_id, "config": trial.config})
        self._choose()

    def on_trial_error(self, trial: _tune.Trial) -> None:
        self.scheduler.on_trial_error(self.controller, self.trials[trial.trial_id])
        self._choose()

    def on_no_more_trials(self) -> None:
        self._choose()

    def _choose(self) -> None:
        if all(trial.status != Trial.PAUSED for trial in self.trials.values()):
            return
        chosen = self.scheduler.choose_trial_to_run(self.controller)
        if chosen is not None and chosen.status == Trial.PAUSED:
            self.resume(chosen._trial)


class _SavingAdapter(_Adapter):
    """For schedulers that save their state."""

    def save(self) -> bytes:
        return saved(self.scheduler.save)

    def restore(self, state: bytes, trials: dict[str, _tune.Trial]) -> None:
        self.trials = {trial_id: Trial(trial) for trial_id, trial in trials.items()}
        restored(self.scheduler.restore, state)


class FIFOScheduler(TrialScheduler):
    def on_trial_result(self, tune_controller: Controller, trial: Trial, result: dict[str, Any]) -> str:
        return self.CONTINUE


class _Method(TrialScheduler):
    """A scheduler in the runtime's text form, with the metric and mode that it was given."""

    def __init__(self, spec: str, metric: str | None = None, mode: str | None = None, time_attr: str = "training_iteration") -> None:
        if time_attr != "training_iteration":
            raise InvalidArgumentError(f'scheduler: time_attr is {time_attr!r}; expected "training_iteration"')
        self.spec = spec
        self.metric = metric
        self.mode = mode


class AsyncHyperBandScheduler(_Method):
    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 100,
        grace_period: int = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        super().__init__(_tune.asha(max_t=max_t, grace_period=grace_period, reduction_factor=reduction_factor, brackets=brackets), metric, mode, time_attr)


ASHAScheduler = AsyncHyperBandScheduler


class HyperBandScheduler(_Method):
    def __init__(
        self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: int = 81, reduction_factor: float = 3, **ignored: Any
    ) -> None:
        super().__init__(_tune.hyperband(max_t=max_t, eta=reduction_factor), metric, mode, time_attr)


class HyperBandForBOHB(_Method):
    def __init__(
        self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: int = 81, reduction_factor: float = 3, **ignored: Any
    ) -> None:
        super().__init__(_tune.hb_bohb(max_t=max_t, eta=reduction_factor), metric, mode, time_attr)


class MedianStoppingRule(_Method):
    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: int = 60,
        min_samples_required: int = 3,
        **ignored: Any,
    ) -> None:
        super().__init__(_tune.median_stopping(grace_period=grace_period, min_samples_required=min_samples_required), metric, mode, time_attr)


class PopulationBasedTraining(_Method):
    """hyperparam_mutations: domains, lists of values, and functions that draw a value."""

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: int = 60,
        hyperparam_mutations: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        **ignored: Any,
    ) -> None:
        mutations: dict[str, Any] = {}
        for name, domain in (hyperparam_mutations or {}).items():
            if callable(domain) and not isinstance(domain, _tune.Domain):
                domain = _tune.sample_from(domain)
            mutations[name] = _tune.choice(domain) if isinstance(domain, (list, tuple)) else domain
        spec = _tune.pbt(
            mutations or None,
            perturbation_interval=perturbation_interval,
            quantile_fraction=quantile_fraction,
            resample_probability=resample_probability,
            synch=ignored.pop("synch", False),
            burn_in_period=int(ignored.pop("burn_in_period", 0)),
        )
        super().__init__(spec, metric, mode, time_attr)


def spec_of(scheduler: Any) -> tuple[str | _tune.Scheduler, str | None, str | None]:
    """Volador's scheduler, its metric and its mode."""
    if scheduler is None or type(scheduler) is FIFOScheduler:
        return "fifo", None, None
    if isinstance(scheduler, (str, _tune.Scheduler)):
        return scheduler, None, None
    if isinstance(scheduler, _Method):
        own = [name for name in vars(TrialScheduler) if name.startswith(("on_", "choose")) and getattr(type(scheduler), name) is not getattr(TrialScheduler, name)]
        if own:
            raise InvalidArgumentError(
                f"scheduler: {type(scheduler).__name__} has its own {own[0]}(), and the method that it derives from decides in the runtime, not in Python; "
                "derive from FIFOScheduler or TrialScheduler"
            )
        return scheduler.spec, scheduler.metric, scheduler.mode
    if isinstance(scheduler, TrialScheduler):
        saves = type(scheduler).save is not TrialScheduler.save and type(scheduler).restore is not TrialScheduler.restore
        adapter = type(type(scheduler).__name__, (_SavingAdapter if saves else _Adapter,), {})(scheduler)
        return adapter, scheduler.metric, scheduler.mode
    raise InvalidArgumentError(
        f"scheduler: a {type(scheduler).__name__} was given; expected one of volador.compat.ray.tune.schedulers, or an object of a class that derives from its TrialScheduler"
    )
