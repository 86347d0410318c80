"""Models of the registry and their versions."""

from __future__ import annotations

import datetime
import enum
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from volador.compat.determined.experimental import _api
from volador.compat.determined.experimental._checkpoint import Checkpoint


class ModelSortBy(enum.Enum):
    NAME = "name"
    CREATION_TIME = "created"
    LAST_UPDATED_TIME = "changed"
    NUM_VERSIONS = "versions"


class OrderBy(enum.Enum):
    ASCENDING = "asc"
    DESCENDING = "desc"
    ASC = "asc"
    DESC = "desc"


ModelOrderBy = OrderBy


def _change(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    return _api.call_models(operation, {**request, "request_id": os.urandom(16).hex()})


class ModelVersion:
    """A version as the cluster reported it last; reload() asks again."""

    def __init__(self, row: dict[str, Any], model_id: int) -> None:
        self.model_id = model_id
        self._set(row)

    def _set(self, row: dict[str, Any]) -> None:
        self.model_name: str = str(row["model"])
        self.model_version: int = int(row["version"])
        self.name: str = str(row["name"])
        self.comment: str = str(row["comment"])
        self.notes: str = str(row["notes"])
        self.labels: list[str] = [str(each) for each in row.get("labels", ())]
        self.aliases: list[str] = [str(each) for each in row.get("aliases", ())]
        self.metadata: dict[str, Any] = _api.object_of(row.get("metadata", ""))
        self.username: str = str(row["user"])
        self.creation_time: datetime.datetime = _api.time_of(row["created_ms"])
        checkpoint = row.get("checkpoint_info")
        self.checkpoint: Checkpoint | None = Checkpoint(checkpoint) if checkpoint else None

    def _edit(self, change: dict[str, Any]) -> None:
        self._set(_change("EditModelVersion", {"model": str(self.model_id), "version": self.model_version, **change}))

    def reload(self) -> ModelVersion:
        self._set(_api.call_models("GetModelVersion", {"model": str(self.model_id), "version": str(self.model_version)}))
        return self

    def set_name(self, name: str) -> None:
        self._edit({"name": name})

    def set_notes(self, notes: str) -> None:
        self._edit({"notes": notes})

    def delete(self) -> None:
        """Its checkpoint stays until its experiment's policy or its owner deletes it."""
        _change("DeleteModelVersion", {"model": str(self.model_id), "version": self.model_version})

    def __repr__(self) -> str:
        return f"<ModelVersion {self.model_version} of {self.model_name!r}>"


class Model:
    """A model as the cluster reported it last; reload() asks again."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._set(row)

    def _set(self, row: dict[str, Any]) -> None:
        self.model_id: int = int(row["id"])
        self.name: str = str(row["name"])
        self.description: str = str(row["description"])
        self.notes: str = str(row["notes"])
        self.labels: list[str] = [str(each) for each in row.get("labels", ())]
        self.metadata: dict[str, Any] = _api.object_of(row.get("metadata", ""))
        self.username: str = str(row["user"])
        self.archived: bool = bool(row["archived"])
        self.creation_time: datetime.datetime = _api.time_of(row["created_ms"])
        self.last_updated_time: datetime.datetime = _api.time_of(row["changed_ms"])
        self.aliases: dict[str, int] = {str(alias): int(version) for alias, version in row.get("aliases", {}).items()}  # Beyond Determined.
        self._newest = int(row["newest_version"])

    def _edit(self, change: dict[str, Any]) -> None:
        self._set(_change("EditModel", {"model": str(self.model_id), **change}))

    def reload(self) -> Model:
        self._set(_api.call_models("GetModel", {"model": str(self.model_id)}))
        return self

    def get_version(self, version: int | str = -1) -> ModelVersion | None:
        """By number or alias; -1: the newest, None if it has none. volador.exceptions.NotFoundError: there is no such version."""
        if version == -1 and self.reload()._newest == 0:
            return None
        wanted = "" if version == -1 else str(version)
        return ModelVersion(_api.call_models("GetModelVersion", {"model": str(self.model_id), "version": wanted}), self.model_id)

    def get_versions(self, order_by: OrderBy = OrderBy.DESCENDING) -> list[ModelVersion]:
        """By number, by default the newest first."""
        rows = _api.call_models("ListModelVersions", {"model": str(self.model_id), "limit": 10_000})["versions"]
        found = [ModelVersion(row, self.model_id) for row in rows]
        return found if order_by is OrderBy.DESCENDING else found[::-1]

    def list_versions(self, order_by: OrderBy = OrderBy.DESCENDING) -> Iterator[ModelVersion]:
        yield from self.get_versions(order_by)

    def register_version(self, checkpoint_uuid: str, name: str = "", comment: str = "") -> ModelVersion:
        """The checkpoint as its next version. ValueError: the checkpoint is not complete, or the model is archived."""
        version = {"checkpoint": checkpoint_uuid, "name": name, "comment": comment}
        return ModelVersion(_change("RegisterModelVersion", {"model": str(self.model_id), "version": version}), self.model_id)

    def promote(self, version: int | ModelVersion, alias: str) -> None:
        """The alias names this version from now on. Beyond Determined."""
        number = version.model_version if isinstance(version, ModelVersion) else int(version)
        self._edit({"set_aliases": {alias: number}})

    def add_metadata(self, metadata: dict[str, Any]) -> None:
        """Adds these keys, or replaces their values."""
        self._edit({"metadata": json.dumps({**self.reload().metadata, **metadata})})

    def remove_metadata(self, keys: Iterable[str]) -> None:
        removed = set(keys)
        self._edit({"metadata": json.dumps({key: value for key, value in self.reload().metadata.items() if key not in removed})})

    def set_labels(self, labels: Iterable[str]) -> None:
        """These, and no others."""
        wanted = list(labels)
        self._edit({"add_labels": wanted, "remove_labels": [each for each in self.reload().labels if each not in wanted]})

    def set_description(self, description: str) -> None:
        self._edit({"description": description})

    def archive(self) -> None:
        """Leaves it out of lists, and refuses changes."""
        self._edit({"archived": True})

    def unarchive(self) -> None:
        self._edit({"archived": False})

    def delete(self) -> None:
        """With its versions; checkpoints stay."""
        _change("DeleteModel", {"model": str(self.model_id)})

    def __repr__(self) -> str:
        return f"<Model {self.model_id} {self.name!r}>"


def create_model(name: str, description: str = "", metadata: dict[str, Any] | None = None, labels: Iterable[str] | None = None, workspace_name: str | None = None) -> Model:
    """ValueError: another model has the name, or it is none."""
    model = {"name": name, "description": description, "metadata": json.dumps(metadata or {}), "labels": list(labels or ()), "workspace": workspace_name or ""}
    return Model(_change("CreateModel", {"model": model}))


def get_model(identifier: str | int) -> Model:
    """By name or id. volador.exceptions.NotFoundError: there is none."""
    return Model(_api.call_models("GetModel", {"model": str(identifier)}))


def get_models(
    sort_by: ModelSortBy = ModelSortBy.NAME, order_by: OrderBy = OrderBy.ASCENDING, name: str = "", description: str = "", labels: Iterable[str] = ()
) -> list[Model]:
    """Models that are not archived, whose name and description contain these texts and which have these labels."""
    order = ("-" if order_by is OrderBy.DESCENDING else "") + sort_by.value
    rows = _api.call_models("ListModels", {"name": name, "labels": list(labels), "order": order, "limit": 10_000})["models"]
    return [Model(row) for row in rows if description in row["description"]]


def get_model_labels() -> list[str]:
    """Labels of models, the most used first."""
    used: dict[str, int] = {}
    for model in get_models():
        for label in model.labels:
            used[label] = used.get(label, 0) + 1
    return sorted(used, key=lambda label: (-used[label], label))
