"""State of a training in a checkpoint's folder.

state_dict.pth: models_state_dict, optimizers_state_dict, lr_schedulers_state_dict (lists in the order of wrapping), callbacks, rng_state, shuffle_seed
and, with mixed precision, scaler_state_dict. trial_state.pkl: the counters. load_data.json: what makes the trial. code/: the program."""

from __future__ import annotations

import logging
import pathlib
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _trial_context, util
from volador.compat.determined.pytorch._callback import PyTorchCallback

if TYPE_CHECKING:
    from volador.compat.determined._loop import TrialState
    from volador.compat.determined.pytorch._context import PyTorchTrialContext, TorchContext

_logger = logging.getLogger("determined.pytorch")

_PREFIX = "module."
_STATE_FILES = ("state_dict.pth", "determined/state_dict.pth", "pedl/state_dict.pth", "checkpoint.pt")
_SINGULAR = {"model_state_dict": "models_state_dict", "optimizer_state_dict": "optimizers_state_dict", "lr_scheduler": "lr_schedulers_state_dict"}


def read(folder: pathlib.Path) -> dict[str, Any] | None:
    """Reads a checkpoint of this façade or of Determined, older layouts included; None: it has no state. Only of a trusted origin: it is unpickled."""
    for name in _STATE_FILES:
        if (folder / name).exists():
            values: dict[str, Any] = torch.load(folder / name, map_location="cpu", weights_only=False)
            break
    else:
        return None
    for old, new in _SINGULAR.items():
        if old in values:
            if new in values:
                raise RuntimeError(f"checkpoint {folder}: it has both {old} and {new}; remove one of them")
            values[new] = [values.pop(old)]
    return values


def apply(values: dict[str, Any], context: PyTorchTrialContext, callbacks: dict[str, PyTorchCallback]) -> None:
    """Gives models, optimizers, schedulers, scaler, callbacks and random generators their state."""
    for callback in callbacks.values():
        callback.on_checkpoint_load_start(values)
    load_models(context.models, values["models_state_dict"])
    for kind, targets in (("optimizers", context.optimizers), ("lr_schedulers", context.lr_schedulers)):
        states = values.get(f"{kind}_state_dict", [])
        if len(states) != len(targets):
            raise RuntimeError(f"checkpoint: it has {len(states)} {kind}, the trial wrapped {len(targets)}; use the trial that wrote it")
        for target, state in zip(targets, states):
            target.load_state_dict(state)
    if context._scaler is not None and "scaler_state_dict" in values:
        context._scaler.load_state_dict(values["scaler_state_dict"])
    elif context._scaler is not None or "scaler_state_dict" in values:
        _logger.warning("checkpoint %s a scaler's state, the trial %s one", *(("lacks", "uses") if context._scaler is not None else ("has", "does not use")))
    restore_random(values.get("rng_state"), context)
    load_callbacks(values, callbacks)


def load_callbacks(values: dict[str, Any], callbacks: dict[str, PyTorchCallback]) -> None:
    states = values.get("callbacks", {})
    for name, callback in callbacks.items():
        if name in states:
            callback.load_state_dict(states[name])
        elif util.is_overridden(callback.load_state_dict, PyTorchCallback):
            _logger.warning("checkpoint has no state of callback %s; it begins anew", name)


def load_models(models: list[Any], states: list[dict[str, Any]]) -> None:
    """States of models with and without DistributedDataParallel fit each other: the prefix "module." is added or removed."""
    if len(models) != len(states):
        raise RuntimeError(f"checkpoint: it has {len(states)} models, the trial wrapped {len(models)}; use the trial that wrote it")
    for model, state in zip(models, states):
        has = bool(state) and all(key.startswith(_PREFIX) for key in state)
        wants = isinstance(model, torch.nn.parallel.DistributedDataParallel)
        inner = not wants and bool(model.state_dict()) and all(key.startswith(_PREFIX) for key in model.state_dict())
        if wants and not has:
            state = {_PREFIX + key: value for key, value in state.items()}
        elif has and not wants and not inner:
            state = {key[len(_PREFIX) :]: value for key, value in state.items()}
        model.load_state_dict(state)


def random_state(context: TorchContext) -> dict[str, Any]:
    states = {"cpu_rng_state": torch.random.get_rng_state(), **_trial_context.random_state()}
    if context.device.type == "cuda":
        states["gpu_rng_state"] = torch.cuda.get_rng_state(context.device)
    return states


def restore_random(states: dict[str, Any] | None, context: TorchContext) -> None:
    if states is None:
        _logger.warning("checkpoint has no state of the random generators")
        return
    _trial_context.restore_random_state(states)
    torch.random.set_rng_state(states["cpu_rng_state"])
    if context.device.type == "cuda" and "gpu_rng_state" in states:
        torch.cuda.set_rng_state(states["gpu_rng_state"], device=context.device)
    elif context.device.type == "cuda" or "gpu_rng_state" in states:
        _logger.warning("random generator of the GPU is not restored: the checkpoint was written %s one", "without" if context.device.type == "cuda" else "with")


def save(
    folder: pathlib.Path,
    trial: Any,
    context: PyTorchTrialContext,
    callbacks: dict[str, PyTorchCallback],
    state: TrialState,
    shuffle_seed: int,
) -> None:
    """Writes the folder; at the chief."""
    folder.mkdir(parents=True, exist_ok=True)
    values: dict[str, Any] = {
        "models_state_dict": [model.state_dict() for model in context.models],
        "optimizers_state_dict": [optimizer.state_dict() for optimizer in context.optimizers],
        "lr_schedulers_state_dict": [scheduler.state_dict() for scheduler in context.lr_schedulers],
        "callbacks": {name: callback.state_dict() for name, callback in callbacks.items()},
        "rng_state": random_state(context),
        "shuffle_seed": shuffle_seed,
    }
    if context._scaler is not None:
        values["scaler_state_dict"] = context._scaler.state_dict()
    for callback in callbacks.values():
        callback.on_checkpoint_save_start(values)
    torch.save(values, folder / "state_dict.pth")
    _trial_context.write_trial(folder, trial, context, state)
    end_write(folder, callbacks)


def end_write(folder: pathlib.Path, callbacks: dict[str, PyTorchCallback]) -> None:
    """At the chief, after all files were written."""
    for callback in callbacks.values():
        callback.on_checkpoint_end(str(folder))
        callback.on_checkpoint_write_end(str(folder))
