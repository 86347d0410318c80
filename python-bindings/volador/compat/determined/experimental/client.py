"""Creates experiments and models and finds those of the cluster, which is that of volador.jobs (VOLADOR_ADDRESS and VOLADOR_TOKEN, or the settings).

    from determined.experimental import client

    experiment = client.create_experiment("config.yaml", model_dir=".")
    print(experiment.wait(), experiment.top_checkpoint().download())
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from volador.compat.determined.experimental import _api
from volador.compat.determined.experimental._checkpoint import Checkpoint
from volador.compat.determined.experimental._experiment import ExperimentReference
from volador.compat.determined.experimental._model import Model, ModelOrderBy, ModelSortBy, ModelVersion, OrderBy, create_model, get_model, get_model_labels, get_models
from volador.compat.determined.experimental._trial import TrialReference

__all__ = [
    "Checkpoint",
    "ExperimentReference",
    "Model",
    "ModelOrderBy",
    "ModelSortBy",
    "ModelVersion",
    "OrderBy",
    "TrialReference",
    "create_experiment",
    "create_model",
    "get_checkpoint",
    "get_experiment",
    "get_model",
    "get_model_labels",
    "get_models",
    "get_trial",
    "list_experiments",
    "list_models",
    "login",
]

list_models = get_models


def login(*args: Any, **kwargs: Any) -> None:
    """No effect: `volador login`, or the token of the environment, signs in."""


def create_experiment(
    config: str | os.PathLike[str] | dict[str, Any], model_dir: str | os.PathLike[str] | None = None, includes: Iterable[str] | None = None
) -> ExperimentReference:
    """Creates an experiment and returns without waiting for it. config: a file, or its contents. model_dir: the program's folder.

    ValueError: the configuration has errors, which the message lists; or includes are given, which are not supported: put the files into model_dir."""
    if includes:
        raise ValueError(f"create_experiment: includes are not supported, got {list(includes)!r}; put these files into model_dir")
    text, name = _api.text_of(config)
    files = "" if model_dir is None else _api.send_code(os.fspath(model_dir))
    request = {"config": text, "config_name": name, "files_sha256": files, "request_id": os.urandom(16).hex()}
    return ExperimentReference(_api.call("CreateExperiment", request)["experiment"])


def get_experiment(experiment_id: int) -> ExperimentReference:
    """volador.exceptions.NotFoundError: there is none."""
    return ExperimentReference(_api.call("GetExperiment", {"id": experiment_id}))


def list_experiments() -> list[ExperimentReference]:
    """The newest first."""
    return [ExperimentReference(row) for row in _api.call("ListExperiments", {"limit": 10_000})["experiments"]]


def get_trial(trial_id: int) -> TrialReference:
    """volador.exceptions.NotFoundError: there is none."""
    return TrialReference(_api.call("GetTrialInfo", {"id": trial_id}))


def get_checkpoint(uuid: str) -> Checkpoint:
    """volador.exceptions.NotFoundError: there is none."""
    return Checkpoint(_api.call("GetCheckpoint", {"id": uuid}))
