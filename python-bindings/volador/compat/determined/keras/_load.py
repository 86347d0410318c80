"""The model of a checkpoint's folder, for inference."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from volador.compat.determined import _import, core
from volador.compat.determined._trial import trial_class_of
from volador.compat.determined.keras import _checkpoint
from volador.compat.determined.keras._context import TFKerasTrialContext


def load_model_from_checkpoint_path(path: str, tags: list[str] | None = None) -> Any:
    """The compiled model of a TFKerasTrial with the weights of a checkpoint's folder; tags have no effect.

    The checkpoint must be of a trusted origin: its code runs. FileNotFoundError: not such a checkpoint. ValueError: the class cannot be imported."""
    folder = pathlib.Path(path)
    if not (folder / "load_data.json").exists():
        raise FileNotFoundError(f"load_model_from_checkpoint_path: there is no {folder / 'load_data.json'}; name the folder of a TFKerasTrial's checkpoint")
    made_from = json.loads((folder / "load_data.json").read_text(encoding="utf-8"))
    spec = made_from["trial_cls_spec"]
    with _import.import_from_path(folder / "code"):
        try:
            trial_class = trial_class_of(spec)
        except Exception as error:
            raise ValueError(f"load_model_from_checkpoint_path: {spec} cannot be imported from {folder / 'code'}: {error}") from error
        parts = core.Context(core.CheckpointContext(core.DummyDistributedContext(), "."))
        options = {"hparams": made_from.get("hparams"), "exp_conf": made_from.get("experiment_config")}
        model = trial_class(TFKerasTrialContext(parts, trial_seed=0, managed_training=False, **options)).build_model()
    _checkpoint.load_weights(folder, model)
    return model
