"""A checkpoint of the cluster."""

from __future__ import annotations

import enum
import os
import shutil
from collections.abc import Callable
from typing import Any

from volador import storage
from volador.compat.determined.experimental import _api


class CheckpointState(enum.Enum):
    ACTIVE = "ACTIVE"
    COMPLETED = "COMPLETED"
    DELETING = "DELETING"
    DELETED = "DELETED"
    ERROR = "ERROR"


class Checkpoint:
    """As the cluster reported it."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.uuid: str = str(row["id"])
        self.state: CheckpointState = CheckpointState(row["state"])
        self.experiment_id: int = int(row["experiment"])
        self.trial_id: int = int(row["trial"])
        self.steps_completed: int = int(row["batches"])
        self.resources: dict[str, int] = {path: int(size) for path, size in row.get("resources", {}).items()}
        self.metadata: dict[str, Any] = _api.object_of(row.get("metadata", ""))
        self.metric: float | None = _api.number_or_none(row, "metric")  # The searcher's.
        self.metrics: dict[str, Any] = _api.object_of(row.get("metrics", ""))
        self.storage: str = str(row["storage"])

    def download(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copies it from its storage into a folder, by default checkpoints/<uuid>, unless it is there; returns the folder.

        Credentials for an object store are those of the environment. volador.exceptions.NotFoundError: it was deleted."""
        target = os.fspath(path) if path is not None else os.path.join("checkpoints", self.uuid)
        if os.path.exists(os.path.join(target, "metadata.json")):
            return target
        if "://" in self.storage:
            storage.open(self.storage.rstrip("/").removesuffix(f"/{self.uuid}")).download(self.uuid, target)
        else:
            shutil.copytree(self.storage, target, dirs_exist_ok=True)
        return target

    def delete(self) -> None:
        """In the background."""
        _api.call("DeleteCheckpoints", {"ids": [self.uuid], "request_id": os.urandom(16).hex()})

    def __repr__(self) -> str:
        return f"<Checkpoint {self.uuid}: trial {self.trial_id}, batch {self.steps_completed}, {self.state.value}>"


def best_first(checkpoints: list[Checkpoint], sort_by: str | None, smaller_is_better: bool) -> list[Checkpoint]:
    """By the searcher's metric or another one of the validations. Those without it are left out."""

    def value_of(checkpoint: Checkpoint) -> float | None:
        value: Any = checkpoint.metric if sort_by is None else checkpoint.metrics.get(sort_by)
        return float(value) if isinstance(value, (int, float)) and value == value else None

    order: Callable[[tuple[float, Checkpoint]], float] = lambda pair: pair[0] if smaller_is_better else -pair[0]  # noqa: E731
    valued = [(value, each) for each in checkpoints if (value := value_of(each)) is not None]
    return [each for _, each in sorted(valued, key=order)]


def checkpoints_of(**of: int) -> list[Checkpoint]:
    """Of an experiment or a trial, the newest first."""
    return [Checkpoint(row) for row in _api.call("ListCheckpoints", {**of, "limit": 10_000})["checkpoints"]]
