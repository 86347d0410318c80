"""State of a training in a checkpoint's folder: the weights as HDF5, and pickled the optimizers, the callbacks and the random generators.

Beside them trial_state.pkl, load_data.json and code/, as all trials have them."""

from __future__ import annotations

import pathlib
import pickle
from typing import TYPE_CHECKING, Any

from volador.compat.determined import _trial_context
from volador.compat.determined.keras import _backend
from volador.compat.determined.keras.callbacks import Callback

if TYPE_CHECKING:
    from volador.compat.determined._loop import TrialState
    from volador.compat.determined.keras._context import TFKerasTrialContext

_OPTIMIZERS, _CALLBACKS, _RANDOM = "determined-keras-optimizer-weights.pkl", "determined-callbacks.v1.pkl", "rng_state.pkl"


def _optimizers_of(model: Any, context: TFKerasTrialContext) -> list[Any]:
    """The model's is the first."""
    return [model.optimizer, *(each for each in context._optimizers if each is not model.optimizer)]


def save(
    folder: pathlib.Path, trial: Any, model: Any, context: TFKerasTrialContext, callbacks: list[Any], state: TrialState, shuffle_seed: int
) -> None:
    """Writes the folder; at the chief."""
    model.save_weights(str(folder / _backend.WEIGHTS), **({} if _backend.IS_3 else {"save_format": "h5"}))
    optimizers = _optimizers_of(model, context)
    _dump(
        folder / _OPTIMIZERS,
        {
            "optimizers": [_backend.values_of(_backend.variables_of(each)) for each in optimizers],
            "other_variables": _backend.values_of(_backend.other_variables_of(model)),
        },
    )
    _dump(folder / _CALLBACKS, [each.get_state() if isinstance(each, Callback) else None for each in callbacks])
    _dump(folder / _RANDOM, {**_backend.random_state(), "shuffle_seed": shuffle_seed})
    _trial_context.write_trial(folder, trial, context, state)
    for callback in callbacks:
        if isinstance(callback, Callback):
            callback.on_checkpoint_end(str(folder))


def _dump(file: pathlib.Path, value: Any) -> None:
    with open(file, "wb") as stream:
        pickle.dump(value, stream)


def _load(file: pathlib.Path) -> Any:
    with open(file, "rb") as stream:
        return pickle.load(stream)


class Saved:
    """A checkpoint that was read. Only of a trusted origin: it is unpickled."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.random: dict[str, Any] = _load(folder / _RANDOM)

    def apply(self, model: Any, context: TFKerasTrialContext, callbacks: list[Any]) -> None:
        """To a built model, after the callbacks were told of the training's begin."""
        load_weights(self._folder, model)
        states = _load(self._folder / _OPTIMIZERS)
        _backend.assign("the model beside its weights", _backend.other_variables_of(model), states["other_variables"])
        optimizers = _optimizers_of(model, context)
        if len(states["optimizers"]) != len(optimizers):
            raise RuntimeError(f"checkpoint: it has {len(states['optimizers'])} optimizers, the trial {len(optimizers)}; use the trial that wrote it")
        for optimizer, values in zip(optimizers, states["optimizers"]):
            _backend.assign_optimizer(optimizer, values, model.trainable_variables if optimizer is model.optimizer else [])
        for callback, state in zip(callbacks, _load(self._folder / _CALLBACKS)):
            if isinstance(callback, Callback) and state is not None:
                callback.load_state(state)
        _backend.restore_random_state(self.random)


def load_weights(folder: pathlib.Path, model: Any) -> None:
    """FileNotFoundError: there are none that this Keras reads."""
    file = folder / _backend.WEIGHTS
    if not file.exists():
        raise FileNotFoundError(f"checkpoint {folder}: there is no {_backend.WEIGHTS}; name the folder of a TFKerasTrial's checkpoint that Keras {3 if _backend.IS_3 else 2} wrote")
    model.load_weights(str(file))
