"""Determined's client: experiments, trials, checkpoints and models of the cluster."""

from volador.compat.determined.experimental import client
from volador.compat.determined.experimental._checkpoint import Checkpoint, CheckpointState
from volador.compat.determined.experimental._experiment import ExperimentReference, ExperimentState
from volador.compat.determined.experimental._model import Model, ModelOrderBy, ModelSortBy, ModelVersion, OrderBy
from volador.compat.determined.experimental._trial import TrialMetrics, TrialReference, TrialState

__all__ = [
    "Checkpoint",
    "CheckpointState",
    "ExperimentReference",
    "ExperimentState",
    "Model",
    "ModelOrderBy",
    "ModelSortBy",
    "ModelVersion",
    "OrderBy",
    "TrialMetrics",
    "TrialReference",
    "TrialState",
    "client",
]
