"""ray.tune.search.bohb."""

from volador.compat.ray.tune.search import TuneBOHB

__all__ = ["TuneBOHB"]
