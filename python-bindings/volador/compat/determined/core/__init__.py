"""Determined's Core API: reports, checkpoints, lengths and messages for programs with a loop of their own."""

from volador.compat.determined.core._checkpoint import CheckpointContext, DownloadMode, DummyCheckpointContext
from volador.compat.determined.core._context import Context, ProfilerContext, init
from volador.compat.determined.core._distributed import DistributedContext, DummyDistributedContext
from volador.compat.determined.core._preempt import DummyPreemptContext, PreemptContext, PreemptMode
from volador.compat.determined.core._searcher import (
    DummySearcherContext,
    DummySearcherOperation,
    SearcherContext,
    SearcherMode,
    SearcherOperation,
    Unit,
)
from volador.compat.determined.core._train import DummyTrainContext, EarlyExitReason, TensorboardMode, TrainContext

__all__ = [
    "CheckpointContext",
    "Context",
    "DistributedContext",
    "DownloadMode",
    "DummyCheckpointContext",
    "DummyDistributedContext",
    "DummyPreemptContext",
    "DummySearcherContext",
    "DummySearcherOperation",
    "DummyTrainContext",
    "EarlyExitReason",
    "PreemptContext",
    "PreemptMode",
    "ProfilerContext",
    "SearcherContext",
    "SearcherMode",
    "SearcherOperation",
    "TensorboardMode",
    "TrainContext",
    "Unit",
    "init",
]
