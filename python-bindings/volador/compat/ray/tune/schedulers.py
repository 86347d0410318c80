"""ray.tune.schedulers."""

from __future__ import annotations

from typing import Any

from volador import tune as _tune
from volador.exceptions import InvalidArgumentError


class TrialScheduler:
    """A scheduler in the runtime's text form, with the metric and mode that it was given."""

    def __init__(self, spec: str, metric: str | None = None, mode: str | None = None, time_attr: str = "training_iteration") -> None:
        if time_attr != "training_iteration":
            raise InvalidArgumentError(f'scheduler: time_attr is {time_attr!r}; expected "training_iteration"')
        self.spec = spec
        self.metric = metric
        self.mode = mode


class FIFOScheduler(TrialScheduler):
    def __init__(self) -> None:
        super().__init__(_tune.fifo())


class AsyncHyperBandScheduler(TrialScheduler):
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


class HyperBandScheduler(TrialScheduler):
    def __init__(
        self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: int = 81, reduction_factor: float = 3, **ignored: Any
    ) -> None:
        super().__init__(_tune.hyperband(max_t=max_t, eta=reduction_factor), metric, mode, time_attr)


class HyperBandForBOHB(TrialScheduler):
    def __init__(
        self, time_attr: str = "training_iteration", metric: str | None = None, mode: str | None = None, max_t: int = 81, reduction_factor: float = 3, **ignored: Any
    ) -> None:
        super().__init__(_tune.hb_bohb(max_t=max_t, eta=reduction_factor), metric, mode, time_attr)


class MedianStoppingRule(TrialScheduler):
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


class PopulationBasedTraining(TrialScheduler):
    """hyperparam_mutations: domains and lists of values; functions are refused."""

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
                raise InvalidArgumentError(f"PopulationBasedTraining: the mutation of {name} is a function; give a domain, as tune.uniform(low, high), or a list")
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


def spec_of(scheduler: Any) -> tuple[str, str | None, str | None]:
    """The text form of a scheduler, its metric and its mode."""
    if scheduler is None:
        return "fifo", None, None
    if isinstance(scheduler, str):
        return scheduler, None, None
    if isinstance(scheduler, TrialScheduler):
        return scheduler.spec, scheduler.metric, scheduler.mode
    raise InvalidArgumentError(f"scheduler: a {type(scheduler).__name__} was given; expected one of volador.compat.ray.tune.schedulers")
