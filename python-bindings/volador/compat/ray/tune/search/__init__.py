"""ray.tune.search: each of Ray's adapters is the searcher of the same method in Volador, and searchers of your own derive
from Searcher as in Ray."""

from __future__ import annotations

from typing import Any, ClassVar

from volador import tune as _tune
from volador.compat.ray.tune._saved import restored, saved
from volador.exceptions import InvalidArgumentError


class Searcher:
    """Base of searchers of your own. suggest() returns a configuration, None (asked again) or FINISHED."""

    FINISHED: ClassVar[str] = "FINISHED"

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> str | None:
        return getattr(self, "_metric", None)

    @property
    def mode(self) -> str | None:
        return getattr(self, "_mode", None)

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Called first, with those of the run. False where the searcher has a space of its own."""
        self._metric, self._mode = self.metric or metric, self.mode or mode
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        raise NotImplementedError(f"{type(self).__name__} has no suggest(trial_id), which returns a configuration, None or Searcher.FINISHED")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        pass

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        pass

    def save(self, checkpoint_path: str) -> None:
        """Writes the state into a file, with restore() for resumed runs."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads what save() has written."""


class _Method(Searcher):
    """A searcher in the runtime's text form."""

    def __init__(self, spec: str, limit: int | None = None) -> None:
        super().__init__()
        self.spec = spec
        self.limit = limit


class _Adapter(_tune.Searcher):
    """Makes Ray's calls of Volador's."""

    def __init__(self, searcher: Searcher) -> None:
        self.searcher = searcher

    def setup(self) -> None:
        self.searcher.set_search_properties(self.metric, self.mode, self.space)

    def suggest(self, trial_id: str) -> Any:
        config = self.searcher.suggest(trial_id)
        if config is None:
            return _tune.WAIT
        return None if isinstance(config, str) and config == Searcher.FINISHED else config

    def on_result(self, trial_id: str, result: dict[str, float]) -> None:
        self.searcher.on_trial_result(trial_id, {**result, "trial_id": trial_id})

    def on_complete(self, trial_id: str, result: dict[str, float] | None, error: bool) -> None:
        self.searcher.on_trial_complete(trial_id, result=None if result is None else {**result, "trial_id": trial_id}, error=error)


class _SavingAdapter(_Adapter):
    """For searchers that save their state."""

    def save(self) -> bytes:
        return saved(self.searcher.save)

    def restore(self, state: bytes) -> None:
        restored(self.searcher.restore, state)


class BasicVariantGenerator(_Method):
    def __init__(self, max_concurrent: int = 0, **ignored: Any) -> None:
        super().__init__(_tune.random_search(), max_concurrent or None)


class ConcurrencyLimiter(Searcher):
    """Limits the trials that run at once."""

    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:
        super().__init__()
        self.searcher = searcher
        self.limit = max_concurrent


class OptunaSearch(_Method):
    """TPE with Optuna's defaults."""

    def __init__(self, space: Any = None, metric: Any = None, mode: Any = None, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("OptunaSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.tpe())


class HyperOptSearch(_Method):
    """TPE."""

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None, n_initial_points: int = 20, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("HyperOptSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.tpe(n_startup_trials=n_initial_points))


class BayesOptSearch(_Method):
    """A Gaussian process with expected improvement."""

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None, random_search_steps: int = 10, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("BayesOptSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.gp(n_startup_trials=random_search_steps))


class TuneBOHB(_Method):
    """BOHB; its scheduler is HyperBandForBOHB."""

    def __init__(self, space: Any = None, bohb_config: Any = None, metric: str | None = None, mode: str | None = None, **ignored: Any) -> None:
        super().__init__(_tune.bohb())


def spec_of(searcher: Any) -> tuple[str | _tune.Searcher, int | None]:
    """Volador's searcher, and the limit of trials at once."""
    if searcher is None:
        return "random", None
    if isinstance(searcher, (str, _tune.Searcher)):
        return searcher, None
    if isinstance(searcher, _Method):
        return searcher.spec, searcher.limit
    if isinstance(searcher, ConcurrencyLimiter):
        return spec_of(searcher.searcher)[0], searcher.limit
    if isinstance(searcher, Searcher):
        saves = type(searcher).save is not Searcher.save and type(searcher).restore is not Searcher.restore
        return type(type(searcher).__name__, (_SavingAdapter if saves else _Adapter,), {})(searcher), None
    raise InvalidArgumentError(
        f"search_alg: a {type(searcher).__name__} was given; expected one of volador.compat.ray.tune.search, or an object of a class that derives from its Searcher"
    )
