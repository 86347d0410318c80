"""ray.tune.search.optuna."""

from volador.compat.ray.tune.search import OptunaSearch

__all__ = ["OptunaSearch"]
