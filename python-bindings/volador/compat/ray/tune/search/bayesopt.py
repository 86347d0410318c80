"""ray.tune.search.bayesopt."""

from volador.compat.ray.tune.search import BayesOptSearch

__all__ = ["BayesOptSearch"]
