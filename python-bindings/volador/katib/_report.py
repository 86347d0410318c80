"""report_metrics(): a trial with the collector Push tells its metrics by itself."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Mapping
from typing import Any

from volador import exceptions, jobs

_AWAY = (exceptions.UnavailableError, exceptions.UnknownOutcomeError, exceptions.GetTimeoutError)
_FIRST_PAUSE_S, _PAUSE_MAX_S = 0.1, 5.0


def report_metrics(metrics: Mapping[str, Any], db_manager_address: str | None = None, timeout: float = 600) -> None:
    """Reports values of metrics of the trial whose process this is. While the head of the cluster is away it is asked again, for `timeout`
    seconds. db_manager_address is accepted as Katib's SDK has it, and not used: the process knows its cluster.

    Raises ValueError: this process is no trial's; RuntimeError: a value is no number, or the cluster does not take the report."""
    trial = os.environ.get("KATIB_TRIAL_NAME")
    if not trial:
        raise ValueError("KATIB_TRIAL_NAME is not set: report_metrics() reports from the processes of trials")
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    logs = []
    for name, value in metrics.items():
        try:
            float(value)
        except (TypeError, ValueError):
            raise RuntimeError(f"metric {name!r}: expected a number, got {value!r}") from None
        logs.append({"time_stamp": stamp, "metric": {"name": str(name), "value": str(value)}})
    end = time.monotonic() + timeout
    pause = _FIRST_PAUSE_S
    while True:
        try:
            jobs._call(jobs._connect(), "DBManager/ReportObservationLog", {"trial_name": trial, "observation_log": {"metric_logs": logs}})
            return
        except _AWAY as error:
            if time.monotonic() + pause > end:
                raise RuntimeError(f"the metrics of trial {trial} cannot be reported: {error}") from error
        except exceptions.VoladorError as error:
            raise RuntimeError(f"the metrics of trial {trial} cannot be reported: {error}") from error
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE_MAX_S)
