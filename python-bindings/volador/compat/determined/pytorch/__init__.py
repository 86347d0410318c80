"""Determined's PyTorch API: trials, their context, data loaders and the Trainer."""

from volador.compat.determined._units import Batch, Epoch, TrainUnit
from volador.compat.determined.pytorch import samplers
from volador.compat.determined.pytorch._callback import PyTorchCallback
from volador.compat.determined.pytorch._context import PyTorchTrialContext
from volador.compat.determined.pytorch._data import DataLoader, TorchData, adapt_batch_sampler, data_length, to_device
from volador.compat.determined.pytorch._experimental import PyTorchExperimentalContext
from volador.compat.determined.pytorch._load import CheckpointLoadContext, load_trial_from_checkpoint_path
from volador.compat.determined.pytorch._lr_scheduler import LRScheduler
from volador.compat.determined.pytorch._reducer import MetricReducer, Reducer, SimpleMetricReducer
from volador.compat.determined.pytorch._trainer import Trainer, init
from volador.compat.determined.pytorch._trial import PyTorchTrial

__all__ = [
    "Batch",
    "CheckpointLoadContext",
    "DataLoader",
    "Epoch",
    "LRScheduler",
    "MetricReducer",
    "PyTorchCallback",
    "PyTorchExperimentalContext",
    "PyTorchTrial",
    "PyTorchTrialContext",
    "Reducer",
    "SimpleMetricReducer",
    "TorchData",
    "TrainUnit",
    "Trainer",
    "adapt_batch_sampler",
    "data_length",
    "init",
    "load_trial_from_checkpoint_path",
    "samplers",
    "to_device",
]
