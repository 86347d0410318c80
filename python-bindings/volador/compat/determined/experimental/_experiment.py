"""An experiment of the cluster."""

from __future__ import annotations

import contextlib
import enum
import os
import time
from typing import Any

from volador import exceptions
from volador.compat.determined.experimental import _api
from volador.compat.determined.experimental._checkpoint import Checkpoint, best_first, checkpoints_of
from volador.compat.determined.experimental._trial import TrialReference


class ExperimentState(enum.Enum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_ERROR = "STOPPING_ERROR"
    CANCELED = "CANCELED"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    DELETING = "DELETING"
    DELETE_FAILED = "DELETE_FAILED"


_ENDED = (ExperimentState.CANCELED, ExperimentState.COMPLETED, ExperimentState.ERROR)


class ExperimentReference:
    """An experiment as the cluster reported it last; reload() asks again."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._set(row)

    def _set(self, row: dict[str, Any]) -> None:
        self.id: int = int(row["id"])
        self.name: str = str(row["name"])
        self.state: ExperimentState = ExperimentState(row["state"])
        self.progress: float = float(row["progress"])
        self.archived: bool = bool(row["archived"])
        self.reason: str = str(row.get("reason", ""))
        self._smaller_is_better = bool(row["smaller_is_better"])

    def reload(self) -> ExperimentReference:
        self._set(_api.call("GetExperiment", {"id": self.id}))
        return self

    def _change(self, command: str) -> None:
        self._set(_api.call("ChangeExperiment", {"id": self.id, "command": command, "request_id": os.urandom(16).hex()}))

    def activate(self) -> None:
        """Its trials go on from their checkpoints."""
        self._change("activate")

    def pause(self) -> None:
        """Its trials save checkpoints and release their resources."""
        self._change("pause")

    def cancel(self) -> None:
        """Its trials save checkpoints and end."""
        self._change("cancel")

    def kill(self) -> None:
        """Its trials end now."""
        self._change("kill")

    def archive(self) -> None:
        self._change("archive")

    def unarchive(self) -> None:
        self._change("unarchive")

    def delete(self) -> None:
        """With its checkpoints; in the background."""
        self._change("delete")

    def wait(self, interval: float = 5.0) -> ExperimentState:
        """Waits until it has ended, asking every `interval` seconds, also while the head is away; returns how."""
        while True:
            with contextlib.suppress(exceptions.UnavailableError):
                self.reload()
            if self.state in _ENDED:
                return self.state
            time.sleep(interval)

    def get_config(self) -> dict[str, Any]:
        """Complete, without secrets."""
        return _api.object_of(_api.call("GetExperiment", {"id": self.id})["config"])

    def get_trials(self) -> list[TrialReference]:
        """By id."""
        return [TrialReference(row) for row in _api.call("ListTrialInfos", {"experiment": self.id, "limit": 10_000})["trials"]]

    def await_first_trial(self, interval: float = 0.1) -> TrialReference:
        """Waits until it has a trial. RuntimeError: it ended without one."""
        while True:
            ended = self.reload().state in _ENDED
            trials = self.get_trials()
            if trials:
                return trials[0]
            if ended:
                raise RuntimeError(f"experiment {self.id} ended as {self.state.value} without a trial{f': {self.reason}' if self.reason else ''}")
            time.sleep(interval)

    def list_checkpoints(self) -> list[Checkpoint]:
        """The newest first."""
        return checkpoints_of(experiment=self.id)

    def top_checkpoint(self, sort_by: str | None = None, smaller_is_better: bool | None = None) -> Checkpoint:
        """The one with the best validation, by the searcher's metric or by sort_by. ValueError: there is none."""
        best = self.top_n_checkpoints(1, sort_by, smaller_is_better)
        if not best:
            raise ValueError(f"experiment {self.id}: no checkpoint has a validation with {sort_by or 'the metric of its search'}; list_checkpoints() lists them")
        return best[0]

    def top_n_checkpoints(self, limit: int, sort_by: str | None = None, smaller_is_better: bool | None = None) -> list[Checkpoint]:
        """The best ones, the best first. smaller_is_better: of sort_by; default: that of the search."""
        smaller = self._smaller_is_better if smaller_is_better is None else smaller_is_better
        return best_first(self.list_checkpoints(), sort_by, smaller)[:limit]

    def __repr__(self) -> str:
        return f"<ExperimentReference {self.id} {self.name!r}: {self.state.value}>"
