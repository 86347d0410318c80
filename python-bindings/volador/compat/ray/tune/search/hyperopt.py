"""ray.tune.search.hyperopt."""

from volador.compat.ray.tune.search import HyperOptSearch

__all__ = ["HyperOptSearch"]
