"""Determined's Keras API: TFKerasTrial, its context and callbacks, and DeterminedCallback for programs that call fit() themselves."""

from volador.compat.determined.keras import callbacks
from volador.compat.determined.keras._callback import DeterminedCallback, TensorBoard
from volador.compat.determined.keras._context import TFKerasTrialContext
from volador.compat.determined.keras._data import ArrayLike, InputData, SequenceAdapter
from volador.compat.determined.keras._load import load_model_from_checkpoint_path
from volador.compat.determined.keras._trial import TFKerasTrial

__all__ = [
    "ArrayLike",
    "DeterminedCallback",
    "InputData",
    "SequenceAdapter",
    "TFKerasTrial",
    "TFKerasTrialContext",
    "TensorBoard",
    "callbacks",
    "load_model_from_checkpoint_path",
]
