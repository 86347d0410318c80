"""ray.tune.search: each of Ray's adapters is the searcher of the same method in Volador."""

from __future__ import annotations

from typing import Any

from volador import tune as _tune
from volador.exceptions import InvalidArgumentError


class Searcher:
    """A searcher in the runtime's text form."""

    def __init__(self, spec: str, limit: int | None = None) -> None:
        self.spec = spec
        self.limit = limit


class BasicVariantGenerator(Searcher):
    def __init__(self, max_concurrent: int = 0, **ignored: Any) -> None:
        super().__init__(_tune.random_search(), max_concurrent or None)


class ConcurrencyLimiter(Searcher):
    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:
        super().__init__(spec_of(searcher)[0], max_concurrent)


class OptunaSearch(Searcher):
    """TPE with Optuna's defaults."""

    def __init__(self, space: Any = None, metric: Any = None, mode: Any = None, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("OptunaSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.tpe())


class HyperOptSearch(Searcher):
    """TPE."""

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None, n_initial_points: int = 20, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("HyperOptSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.tpe(n_startup_trials=n_initial_points))


class BayesOptSearch(Searcher):
    """A Gaussian process with expected improvement."""

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None, random_search_steps: int = 10, **ignored: Any) -> None:
        if space is not None:
            raise InvalidArgumentError("BayesOptSearch: space is not there; give param_space to the Tuner")
        super().__init__(_tune.gp(n_startup_trials=random_search_steps))


class TuneBOHB(Searcher):
    """BOHB; its scheduler is HyperBandForBOHB."""

    def __init__(self, space: Any = None, bohb_config: Any = None, metric: str | None = None, mode: str | None = None, **ignored: Any) -> None:
        super().__init__(_tune.bohb())


def spec_of(searcher: Any) -> tuple[str, int | None]:
    """The text form of a searcher, and its limit of trials at once."""
    if searcher is None:
        return "random", None
    if isinstance(searcher, str):
        return searcher, None
    if isinstance(searcher, Searcher):
        return searcher.spec, searcher.limit
    raise InvalidArgumentError(f"search_alg: a {type(searcher).__name__} was given; expected one of volador.compat.ray.tune.search")
