"""ray.tune.search.basic_variant."""

from volador.compat.ray.tune.search import BasicVariantGenerator

__all__ = ["BasicVariantGenerator"]
