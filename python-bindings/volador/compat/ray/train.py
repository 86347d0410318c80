"""ray.train's names that trials of Ray Tune use."""

from volador.compat.ray.tune import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, get_checkpoint, report

__all__ = ["Checkpoint", "CheckpointConfig", "FailureConfig", "RunConfig", "get_checkpoint", "report"]
