"""ray.tune.logger. result.json, progress.csv and TensorBoard files are written by the runtime."""

from volador.compat.ray.tune.callback import LoggerCallback

__all__ = ["LoggerCallback"]
