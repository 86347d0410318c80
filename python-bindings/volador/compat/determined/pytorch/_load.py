"""A trial from a checkpoint's folder, for inference."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined import _import, core
from volador.compat.determined._trial import trial_class_of
from volador.compat.determined.pytorch import _checkpoint
from volador.compat.determined.pytorch._context import PyTorchTrialContext


class CheckpointLoadContext(PyTorchTrialContext):
    """For a trial that is not trained: models stay as they are made."""

    def __init__(self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None) -> None:
        parts = core.Context(core.CheckpointContext(core.DummyDistributedContext(), "."))
        super().__init__(parts, trial_seed=0, hparams=hparams, exp_conf=exp_conf, managed_training=False, enable_tensorboard_logging=False)


def load_trial_from_checkpoint_path(
    path: str,
    trial_class: Any = None,
    trial_kwargs: dict[str, Any] | None = None,
    torch_load_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """A trial whose models have the weights of a checkpoint's folder.

    trial_class: default: that of the checkpoint, imported from its code/. trial_kwargs: arguments after the context. torch_load_kwargs (or kwargs,
    deprecated): those of torch.load. The checkpoint must be of a trusted origin: its code runs and its state is unpickled.
    FileNotFoundError: not a checkpoint. ValueError: the class cannot be imported."""
    if kwargs and torch_load_kwargs:
        raise ValueError("load_trial_from_checkpoint_path: torch_load_kwargs and other keyword arguments exclude each other; use torch_load_kwargs")
    folder = pathlib.Path(path)
    if not (folder / "load_data.json").exists():
        raise FileNotFoundError(f"load_trial_from_checkpoint_path: there is no {folder / 'load_data.json'}; name the folder of a PyTorchTrial's checkpoint")
    with open(folder / "load_data.json", encoding="utf-8") as file:
        made_from = json.load(file)
    if trial_class is None:
        spec = made_from["trial_cls_spec"]
        try:
            with _import.import_from_path(folder / "code"):
                trial_class = trial_class_of(spec)
        except Exception as error:
            raise ValueError(f"load_trial_from_checkpoint_path: {spec} cannot be imported from {folder / 'code'}: {error}; pass trial_class=…") from error
    context = CheckpointLoadContext(made_from.get("hparams"), made_from.get("experiment_config"))
    trial = trial_class(context, **(trial_kwargs or {}))
    options = {"map_location": context.device, "weights_only": False, **(torch_load_kwargs or kwargs)}
    values = torch.load(folder / "state_dict.pth", **options)
    _checkpoint.load_models(context.models, values["models_state_dict"])
    return trial
