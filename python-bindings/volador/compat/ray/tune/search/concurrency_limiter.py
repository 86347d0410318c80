"""ray.tune.search.concurrency_limiter."""

from volador.compat.ray.tune.search import ConcurrencyLimiter

__all__ = ["ConcurrencyLimiter"]
