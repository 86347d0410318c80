"""State of a training in a checkpoint's folder.

state_dict.pth: models_state_dict, optimizers_state_dict, lr_schedulers_state_dict (lists in the order of wrapping), callbacks, rng_state, shuffle_seed
and, with mixed precision, scaler_state_dict. trial_state.pkl: the counters. load_data.json: what makes the trial. code/: the program."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
import pickle
import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _info, util
from volador.compat.determined.pytorch._callback import PyTorchCallback

if TYPE_CHECKING:
    from volador.compat.determined.pytorch._context import PyTorchTrialContext

_logger = logging.getLogger("determined.pytorch")

_PREFIX = "module."
_STATE_FILES = ("state_dict.pth", "determined/state_dict.pth", "pedl/state_dict.pth", "checkpoint.pt")
_SINGULAR = {"model_state_dict": "models_state_dict", "optimizer_state_dict": "optimizers_state_dict", "lr_scheduler": "lr_schedulers_state_dict"}


@dataclasses.dataclass
class TrialState:
    """Counters of a trial, in batches except for epochs_trained."""

    trial_id: int = 0
    last_ckpt: int = 0
    step_id: int = 0
    last_val: int = 0
    batches_trained: int = 0
    epochs_trained: int = 0


@dataclasses.dataclass
class Restored:
    """A checkpoint that was read. same_trial: its counters go on; else only weights and states are taken (warm start)."""

    values: dict[str, Any] | None
    state: TrialState
    same_trial: bool


def read(folder: pathlib.Path, trial_id: int, continued_at: int = 0) -> Restored:
    """Reads a checkpoint of this façade or of Determined, older layouts included. Only of a trusted origin: it is unpickled.

    continued_at: batches at which the trial goes on with another one's counters, as a new experiment that continues an earlier one does; 0: it does not."""
    values: dict[str, Any] | None = None
    for name in _STATE_FILES:
        if (folder / name).exists():
            values = torch.load(folder / name, map_location="cpu", weights_only=False)
            break
    if values is not None:
        for old, new in _SINGULAR.items():
            if old in values:
                if new in values:
                    raise RuntimeError(f"checkpoint {folder}: it has both {old} and {new}; remove one of them")
                values[new] = [values.pop(old)]
    counters: dict[str, Any] = {}
    for name in ("trial_state.pkl", "workload_sequencer.pkl"):
        if (folder / name).exists():
            with open(folder / name, "rb") as file:
                counters = pickle.load(file)
            break
    counters.setdefault("batches_trained", counters.get("steps_completed", 0))
    if counters.get("trial_id") != trial_id and not 0 < continued_at == counters["batches_trained"]:
        return Restored(values, TrialState(trial_id=trial_id), False)
    counters["trial_id"] = trial_id
    names = {field.name for field in dataclasses.fields(TrialState)}
    return Restored(values, TrialState(**{name: value for name, value in counters.items() if name in names}), True)


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
    _restore_random(values.get("rng_state"), context)
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


def _restore_random(states: dict[str, Any] | None, context: PyTorchTrialContext) -> None:
    if states is None:
        _logger.warning("checkpoint has no state of the random generators")
        return
    np.random.set_state(states["np_rng_state"])
    random.setstate(states["random_rng_state"])
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
    info = _info.get_cluster_info()
    source = (info._code if info is not None else None) or "."
    secret = os.environ.get("VOLADOR_INFO_DIR", "")  # With the trial's token.
    util.write_user_code(folder, source, [context._core.checkpoint._storage, *([secret] if secret else [])])
    randomness: dict[str, Any] = {
        "cpu_rng_state": torch.random.get_rng_state(),
        "np_rng_state": np.random.get_state(),
        "random_rng_state": random.getstate(),
    }
    if context.device.type == "cuda":
        randomness["gpu_rng_state"] = torch.cuda.get_rng_state(context.device)
    values: dict[str, Any] = {
        "models_state_dict": [model.state_dict() for model in context.models],
        "optimizers_state_dict": [optimizer.state_dict() for optimizer in context.optimizers],
        "lr_schedulers_state_dict": [scheduler.state_dict() for scheduler in context.lr_schedulers],
        "callbacks": {name: callback.state_dict() for name, callback in callbacks.items()},
        "rng_state": randomness,
        "shuffle_seed": shuffle_seed,
    }
    if context._scaler is not None:
        values["scaler_state_dict"] = context._scaler.state_dict()
    for callback in callbacks.values():
        callback.on_checkpoint_save_start(values)
    torch.save(values, folder / "state_dict.pth")
    with open(folder / "trial_state.pkl", "wb") as file:
        pickle.dump(dataclasses.asdict(state), file)
    with open(folder / "load_data.json", "w", encoding="utf-8") as text:
        json.dump(_load_data(type(trial), context), text)
    for callback in callbacks.values():
        callback.on_checkpoint_end(str(folder))
        callback.on_checkpoint_write_end(str(folder))


def _load_data(trial_class: type, context: PyTorchTrialContext) -> dict[str, Any]:
    from volador.compat.determined import __version__

    module = trial_class.__module__
    in_main = module == "__main__"
    if in_main:
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        module = spec.name if spec is not None else pathlib.Path(getattr(main, "__file__", None) or "").stem
    return {
        "trial_type": "PyTorchTrial",
        "experiment_config": _jsonable(context._exp_conf),
        "hparams": _jsonable(context._hparams),
        "trial_cls_spec": f"{module}:{trial_class.__qualname__}",
        "is_trainer": True,
        "trial_in_main": in_main,
        "determined_version": __version__,
    }


def _jsonable(value: Any) -> Any:
    return None if value is None else json.loads(util.json_encode(value))
