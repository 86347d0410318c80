"""Determined's client: experiments, trials and checkpoints of the cluster."""

from volador.compat.determined.experimental import client
from volador.compat.determined.experimental._checkpoint import Checkpoint, CheckpointState
from volador.compat.determined.experimental._experiment import ExperimentReference, ExperimentState
from volador.compat.determined.experimental._trial import TrialMetrics, TrialReference, TrialState

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "ExperimentReference",
    "ExperimentState",
    "TrialMetrics",
    "TrialReference",
    "TrialState",
    "client",
]
