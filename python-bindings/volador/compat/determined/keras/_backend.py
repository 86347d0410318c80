"""The Keras of this process, 2 or 3, and the differences between them."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from volador.compat.determined import _trial_context, util

util.choose_keras_backend()
try:
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        import tf_keras as keras  # type: ignore[import-not-found, import-untyped, unused-ignore]
    else:
        import keras  # type: ignore[import-not-found, import-untyped, unused-ignore, no-redef]
except ModuleNotFoundError as error:
    if error.name not in ("keras", "tf_keras", "tensorflow"):
        raise
    raise ModuleNotFoundError(
        f"determined.keras: {error.name} is not installed; install it with: pip install {error.name}. Without TensorFlow, Keras 3 runs on PyTorch: set "
        "KERAS_BACKEND=torch in environment.environment_variables",
        name=error.name,
    ) from error

__all__ = ["keras"]
IS_3 = int(keras.__version__.partition(".")[0]) >= 3
WEIGHTS = "determined-keras-model.weights.h5" if IS_3 else "determined-keras-model-weights"  # File in a checkpoint.


def backend() -> str:
    return str(keras.backend.backend())


def framework() -> str:
    return f"keras-{keras.__version__}-{backend()}"


def variables_of(optimizer: Any) -> list[Any]:
    found = optimizer.variables
    return list(found() if callable(found) else found)


def other_variables_of(model: Any) -> list[Any]:
    """Those that are no weights: the seeds of Keras 3's layers."""
    weights = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def values_of(variables: list[Any]) -> list[Any]:
    """Copies."""
    return [np.array(keras.ops.convert_to_numpy(variable) if IS_3 else variable.numpy()) for variable in variables]


def assign(what: str, variables: list[Any], values: list[Any]) -> None:
    if len(variables) != len(values):
        raise RuntimeError(f"checkpoint: it has {len(values)} variables of {what}, the trial has {len(variables)}; use the trial that wrote it")
    for variable, value in zip(variables, values):
        variable.assign(value)


def assign_optimizer(optimizer: Any, values: list[Any], trained: list[Any]) -> None:
    """trained: the variables that the model's optimizer is built with; of another one none, and it gets its values when the trial builds it."""
    if not getattr(optimizer, "built", True) and trained:
        optimizer.build(trained)
    if getattr(optimizer, "built", True):
        assign("an optimizer", variables_of(optimizer), values)
        return
    build = optimizer.build

    def build_and_assign(*args: Any, **kwargs: Any) -> None:
        build(*args, **kwargs)
        optimizer.build = build
        assign("an optimizer", variables_of(optimizer), values)

    optimizer.build = build_and_assign


def inner_of(optimizer: Any) -> Any:
    """Without a LossScaleOptimizer around it, as mixed precision makes one."""
    return getattr(optimizer, "inner_optimizer", optimizer)


# Random numbers.


def set_random_seeds(seed: int) -> None:
    _trial_context.set_random_seeds(seed)
    keras.utils.set_random_seed(seed % 2**32)


def _draws() -> Any:
    """Keras 3's generator for calls without a seed; None where nothing was drawn of it."""
    with contextlib.suppress(ImportError, AttributeError):
        from keras.src.backend.common import global_state  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return global_state.get_global_attribute("global_seed_generator")
    return None


def random_state() -> dict[str, Any]:
    states = _trial_context.random_state()
    draws = _draws() if IS_3 else None
    if draws is not None:
        states["keras"] = values_of([draws.state])
    if backend() == "torch":
        import torch  # type: ignore[import-not-found, unused-ignore]

        states["cpu_rng_state"] = torch.random.get_rng_state().numpy()
        if torch.cuda.is_available():
            states["gpu_rng_state"] = torch.cuda.get_rng_state().numpy()
    return states


def restore_random_state(states: dict[str, Any]) -> None:
    _trial_context.restore_random_state(states)
    if "keras" in states and IS_3:
        if _draws() is None:
            keras.random.uniform((1,))  # Makes it.
        assign("the random generator", [_draws().state], states["keras"])
    if backend() == "torch" and "cpu_rng_state" in states:
        import torch

        torch.random.set_rng_state(torch.from_numpy(states["cpu_rng_state"]))
        if torch.cuda.is_available() and "gpu_rng_state" in states:
            torch.cuda.set_rng_state(torch.from_numpy(states["gpu_rng_state"]))


# Several processes.


def average_gradients(optimizer: Any) -> None:
    """Makes the optimizer apply the mean of the processes' gradients; with PyTorch as backend."""
    import torch
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    optimizer = inner_of(optimizer)
    apply = optimizer.apply

    def averaged(grads: Any, *args: Any, **kwargs: Any) -> Any:
        grads = list(grads)
        given = [grad for grad in grads if grad is not None]
        with torch.no_grad():
            flat = torch.cat([grad.reshape(-1).float() for grad in given])
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
            means = iter([part.view_as(grad).to(grad.dtype) for part, grad in zip(flat.split([grad.numel() for grad in given]), given)])
        return apply([None if grad is None else next(means) for grad in grads], *args, **kwargs)

    optimizer.apply = averaged
