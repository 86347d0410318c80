"""A trial of the cluster."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
from collections.abc import Iterator
from typing import Any

from volador import jobs
from volador.compat.determined.experimental import _api
from volador.compat.determined.experimental._checkpoint import Checkpoint, best_first, checkpoints_of


class TrialState(enum.Enum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_ERROR = "STOPPING_ERROR"
    CANCELED = "CANCELED"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"


@dataclasses.dataclass(frozen=True)
class TrialMetrics:
    """A report."""

    trial_id: int
    group: str
    steps_completed: int
    end_time: datetime.datetime
    metrics: dict[str, float]


class TrialReference:
    """A trial as the cluster reported it last; reload() asks again."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._set(row)

    def _set(self, row: dict[str, Any]) -> None:
        self.id: int = int(row["id"])
        self.experiment_id: int = int(row["experiment"])
        self.state: TrialState = TrialState(row["state"])
        self.hparams: dict[str, Any] = _api.object_of(row.get("hparams", ""))
        self.restarts: int = int(row["restarts"])
        self.steps_completed: int = int(row["batches"])
        self.best_metric: float | None = _api.number_or_none(row, "best_metric")
        self.reason: str = str(row.get("reason", ""))
        self._job = str(row["job"])
        self._latest = str(row["latest_checkpoint"])

    def reload(self) -> TrialReference:
        self._set(_api.call("GetTrialInfo", {"id": self.id}))
        return self

    def kill(self) -> None:
        _api.call("KillTrial", {"id": self.id, "request_id": os.urandom(16).hex()})

    def logs(self) -> Iterator[str]:
        """Lines of its newest run; none before it starts."""
        if self.reload()._job:
            for line in jobs.get(self._job).logs():
                yield line.text

    def get_checkpoints(self) -> list[Checkpoint]:
        """The newest first."""
        return checkpoints_of(trial=self.id)

    def top_checkpoint(self, sort_by: str | None = None, smaller_is_better: bool | None = None) -> Checkpoint:
        """See ExperimentReference.top_checkpoint()."""
        return self.select_checkpoint(best=True, sort_by=sort_by, smaller_is_better=smaller_is_better)

    def select_checkpoint(
        self, latest: bool = False, best: bool = False, uuid: str | None = None, sort_by: str | None = None, smaller_is_better: bool | None = None
    ) -> Checkpoint:
        """The latest one, the best one, or that of an id. ValueError: not exactly one was chosen, or there is no such checkpoint."""
        if [latest, best, uuid is not None].count(True) != 1:
            raise ValueError("select_checkpoint: expected exactly one of latest, best and uuid")
        checkpoints = self.get_checkpoints()
        if latest:
            uuid = self.reload()._latest
        if best:
            if sort_by is None or smaller_is_better is None:
                smaller_is_better = bool(_api.call("GetExperiment", {"id": self.experiment_id})["smaller_is_better"])
            checkpoints = best_first(checkpoints, sort_by, smaller_is_better)
        else:
            checkpoints = [each for each in checkpoints if each.uuid == uuid]
        if not checkpoints:
            raise ValueError(f"trial {self.id}: there is no such checkpoint; get_checkpoints() lists those that it has")
        return checkpoints[0]

    def iter_metrics(self, group: str = "validation") -> Iterator[TrialMetrics]:
        """Reports of a group ("training", "validation", or another one of the program), in the order of their steps; numbers only."""
        series = _api.call("GetMetrics", {"trials": [self.id], "group": group, "max_points": -1})["series"]
        reports: dict[int, tuple[int, dict[str, float]]] = {}
        for each in series:
            for batches, value, time_ms in zip(each["batches"], each["values"], each["times_ms"]):
                reports.setdefault(int(batches), (int(time_ms), {}))[1][each["metric"]] = float(value)
        for steps, (time_ms, metrics) in sorted(reports.items()):
            yield TrialMetrics(self.id, group, steps, _api.time_of(time_ms), metrics)

    def __repr__(self) -> str:
        return f"<TrialReference {self.id}: {self.state.value}, batch {self.steps_completed}>"
