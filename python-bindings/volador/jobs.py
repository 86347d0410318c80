"""Jobs: commands in the queue of a cluster, on one or several nodes.

    from volador import jobs

    job = jobs.submit(["python3", "train.py"], gpus=1, duration=4 * 3600)
    for line in job.follow():
        print(line.text)
    print(job.state, job.exit_code)
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volador import _core

_SLICE_S = 0.5  # A wait looks for Ctrl-C this often.
_POLL_S = 0.2


@dataclasses.dataclass(frozen=True)
class Rank:
    """The process of a job on one node."""

    rank: int
    node: str  # Empty: not placed.
    state: str  # pending, starting, running, ended.
    exit_code: int  # 128 + the signal's number if a signal ended it.
    reason: str
    actor: str  # Id of the actor that runs it.


@dataclasses.dataclass(frozen=True)
class Start:
    """When a job is expected to start. Times are Unix times in seconds; None: unknown."""

    now: bool
    never: bool
    likely: float | None
    latest: float | None
    ahead: int


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a job's output."""

    rank: int
    node: str
    is_stderr: bool
    text: str


class Job:
    """A job as the cluster reported it last; refresh() asks again."""

    def __init__(self, api: _core.JobsApi, row: dict[str, Any]) -> None:
        self._api = api
        self._row = row

    @property
    def id(self) -> str:
        """Its id: "job-7"."""
        return str(self._row["id"])

    @property
    def name(self) -> str:
        return str(self._row["spec"]["name"])

    @property
    def state(self) -> str:
        """queued, running, succeeded, failed, stopped or expired."""
        return str(self._row["state"])

    @property
    def reason(self) -> str:
        """Why it waits, or how it ended."""
        return str(self._row["reason"])

    @property
    def exit_code(self) -> int:
        """Exit code of the first rank that failed, else 0."""
        return int(self._row["exit_code"])

    @property
    def restarts(self) -> int:
        return int(self._row["restarts"])

    @property
    def ended(self) -> bool:
        return int(self._row["ended_ms"]) != 0

    @property
    def spec(self) -> dict[str, Any]:
        """The fields of volador.v1.JobSpec."""
        return dict(self._row["spec"])

    @property
    def ranks(self) -> list[Rank]:
        """The processes of its newest attempt."""
        return [
            Rank(row["rank"], row["node"], row["state"], row["exit_code"], row["reason"], row["actor"]) for row in self._row["ranks"]
        ]

    @property
    def start(self) -> Start | None:
        """When it is expected to start; None: it is not queued."""
        return _start_of(self._row)

    def refresh(self) -> Job:
        """Reads its state again. Raises volador.exceptions.NotFoundError: it was deleted."""
        self._row = _call(self._api, "Jobs/GetJob", {"job": self.id})
        return self

    def wait(self, timeout: float | None = None) -> Job:
        """Waits until it has ended. Raises TimeoutError after `timeout` seconds; the job goes on then."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            try:
                self._row = json.loads(self._api.wait(self.id, left))
                return self
            except TimeoutError:
                if end is not None and time.monotonic() >= end:
                    raise

    def stop(self, *, now: bool = False) -> Job:
        """Ends it: SIGTERM, then SIGKILL after its graceful time; `now`: SIGKILL at once. Returns before its end."""
        self._row = _call(self._api, "Jobs/StopJob", {"job": self.id, "now": now})["job"]
        return self

    def extend(self, duration: float) -> Job:
        """Sets its maximum running time in seconds, from its start; 0: unlimited."""
        self._row = _call(self._api, "Jobs/ExtendJob", {"job": self.id, "duration_s": _whole(duration)})["job"]
        return self

    def set_priority(self, priority: str) -> Job:
        """Sets the priority of a queued job: normal, urgent or very_urgent."""
        self._row = _call(self._api, "Jobs/SetJobPriority", {"job": self.id, "priority": priority})["job"]
        return self

    def delete(self) -> None:
        """Deletes it from the list; it must have ended."""
        _call(self._api, "Jobs/DeleteJob", {"job": self.id})

    def logs(self, *, rank: int | None = None, tail: int = 0) -> list[Line]:
        """Its output so far; `tail`: at most this many of the last lines of each stream."""
        lines, _ = _core.JobLines(self._api, self.id, -1 if rank is None else rank, tail).read()
        return [Line(*line) for line in lines]

    def follow(self, *, rank: int | None = None) -> Iterator[Line]:
        """Its output from the beginning, until it has ended."""
        output = _core.JobLines(self._api, self.id, -1 if rank is None else rank, 0)
        while True:
            lines, ended = output.read()
            for line in lines:
                yield Line(*line)
            if ended:
                self.refresh()
                return
            if not lines:
                time.sleep(_POLL_S)

    def __repr__(self) -> str:
        name = "" if self.name == self.id else f" {self.name!r}"
        why = f", {self.reason}" if self.reason else ""
        return f"<volador.jobs.Job {self.id}{name}: {self.state}{why}>"


def submit(
    command: str | Sequence[str],
    *,
    name: str = "",
    nodes: int = 1,
    cpus: float = 1,
    gpus: float = 0,
    memory: int = 0,
    resources: Mapping[str, float] | None = None,
    mode: str = "single",
    setup: str = "",
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    environment: str = "",
    code: str | os.PathLike[str] | None = ".",
    directory: str = "",
    priority: str = "normal",
    duration: float = 0,
    max_restarts: int = 0,
    graceful: float = 30,
    node_names: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    project: str = "",
    note: str = "",
    isolated: bool = False,
    mounts: Sequence[str] = (),
    shm: int = 0,
    pool: str = "",
    stop_signal: str = "TERM",
    output: str = "",
    notify: Sequence[str] = (),
    debug: float = 0,
    min_nodes: int = 0,
    grow: bool = False,
    max_resumes: int = 0,
    teardown: str = "",
    log_policies: Sequence[Mapping[str, Any]] = (),
    access: str = "read",
    parameter_servers: int = 0,
    share_nodes: bool = False,
) -> Job:
    """Submits a job. A text as `command` is run by bash. Resources are per node: `memory` and `shm` in bytes. `code` is the folder
    that travels with the job; None: no folder. `environment` is a file of it that lists packages ("requirements.txt"), a path of
    the nodes, an image or a name. Times are in seconds; duration 0: unlimited. docs/guides/jobs.md describes the fields.

    min_nodes: an elastic job starts on the nodes that are free, at least so many and at most `nodes`; with `grow` it is asked to
    save, and goes on with more when they are free. max_resumes: times that it is asked to save and goes on elsewhere when a node of
    it fails or is drained; not together with max_restarts. debug: its nodes keep its surroundings for this time after a failure.
    teardown: a command line for bash on each node after the command, however it ended. log_policies: maps such as {"pattern":
    "loss is nan", "action": "notify"}; actions are label, notify, exclude_node, cancel_retries and move. access: what others of its
    project may do, none, read or write. notify: mail addresses and names of the queue's notifications. parameter_servers: of the
    nodes, for mode "tensorflow". share_nodes: ranks may run on the same node, each with resources of its own; `nodes` is their
    number.

    Raises ValueError: a field is wrong; volador.exceptions.InfeasibleError: no node can ever run it."""
    return _submit_set(locals(), [], [], 0)[0]


def submit_batch(command: str | Sequence[str] = (), *, tasks: int | Sequence[Mapping[str, Any]], **fields: Any) -> list[Job]:
    """Submits a batch: `tasks` equal jobs that read their index from VOLADOR_TASK_INDEX, or one for each map of fields of submit()
    that differ. A job is named "<name>-<index>", and its output folder is "<output>/<name>-<index>". Raises as submit()."""
    given = _fields(command, fields, "submit_batch")
    if isinstance(tasks, int):
        return _submit_set(given, [], [], tasks)
    return _submit_set(given, [], [_changes(task) for task in tasks], 0)


def submit_one_of(command: str | Sequence[str] = (), *, alternatives: Sequence[Mapping[str, Any]], **fields: Any) -> list[Job]:
    """Submits a job for each map of fields of submit() that differ. The first that starts stops the others. Raises as submit()."""
    given = _fields(command, fields, "submit_one_of")
    return _submit_set(given, [_changes(alternative) for alternative in alternatives], [], 0)


def predict(command: str | Sequence[str] = "true", **fields: Any) -> Start:
    """When a job with these fields of submit() would start. Nothing is submitted. Raises as submit()."""
    api = _connect()
    spec = _spec(_fields(command, fields, "predict"))
    start = _start_of(_call(api, "Jobs/SubmitJob", {"spec": spec, "dry_run": True})["job"])
    assert start is not None
    return start


def get(job: str | int) -> Job:
    """The job with this id, number or name. Raises NotFoundError: there is none, or several have the name."""
    api = _connect()
    return Job(api, _call(api, "Jobs/GetJob", {"job": str(job)}))


def list_jobs(*, state: str = "", name: str = "", project: str = "", batch: str = "", limit: int = 1000) -> list[Job]:
    """The jobs, newest first. `state`: also "open", which is queued or running. `name`: a part of the name."""
    api = _connect()
    request = {"state": state, "name": name, "project": project, "batch": batch, "limit": limit}
    return [Job(api, row) for row in _call(api, "Jobs/ListJobs", request)["jobs"]]


def queue() -> dict[str, Any]:
    """Pools, projects and settings of the job queue, as volador.v1.GetQueueReply."""
    return _call(_connect(), "Jobs/GetQueue", {})


def usage(*, from_day: str = "", to_day: str = "") -> list[dict[str, Any]]:
    """What jobs used, as rows by day, project and owner with cpu_hours, gpu_hours and memory_gib_hours. Days are in UTC: "2026-11-27".
    A row without a project has what nothing used: no job, no actor, no trial.

    Raises ValueError: a day has another form."""
    rows: list[dict[str, Any]] = _call(_connect(), "Jobs/GetUsage", {"from_day": from_day, "to_day": to_day})["usage"]
    return rows


def set_queue(settings: str) -> dict[str, Any]:
    """Sets the settings of the queue from YAML, as `volador job queue --apply` does. Returns them.

    Raises ValueError: a field is wrong; PermissionError: the token is not an operator's."""
    request = {"settings": json.loads(_core.queue_settings_of(settings)), "request_id": os.urandom(16).hex()}
    reply: dict[str, Any] = _call(_connect(), "Jobs/SetQueue", request)["settings"]
    return reply


_connections: dict[tuple[str, ...], _core.JobsApi] = {}


def _connect() -> _core.JobsApi:
    """A connection to the cluster that volador.init() without arguments connects to, but to no private one."""
    address, token, user = _core.jobs_access(os.environ.get("VOLADOR_ADDRESS", ""), os.environ.get("VOLADOR_TOKEN", ""))
    key = (str(os.getpid()), address, token, user)  # A connection does not survive a fork.
    if key not in _connections:
        _connections[key] = _core.JobsApi(address, token, user)
    return _connections[key]


def _call(api: _core.JobsApi, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = json.loads(api.call(operation, json.dumps(request)))
    return reply


def _whole(seconds: float) -> int:
    return int(seconds) if seconds == int(seconds) else int(seconds) + 1


def _fields(command: str | Sequence[str], fields: Mapping[str, Any], function: str) -> dict[str, Any]:
    """All fields of submit(), with its defaults."""
    unknown = set(fields) - set(submit.__kwdefaults__ or {})
    if unknown:
        raise TypeError(f"{function}() got an unexpected field {sorted(unknown)[0]!r}; it takes those of submit()")
    return {**(submit.__kwdefaults__ or {}), **fields, "command": command}


_WITH_UNITS = {"memory": "memory_bytes", "shm": "shm_bytes", "duration": "duration_s", "graceful": "graceful_s", "debug": "debug_s"}


def _changes(fields: Mapping[str, Any]) -> str:
    """The fields of one job of a set, by their names in JobSpec, as JSON, which is YAML."""
    named = {_WITH_UNITS.get(name, name): value for name, value in fields.items()}
    return json.dumps({name: _whole(value) if name.endswith("_s") else value for name, value in named.items()})


def _submit_set(fields: Mapping[str, Any], alternatives: list[str], tasks: list[str], array: int) -> list[Job]:
    specs = [json.loads(text) for text in _core.jobs_of_set(json.dumps(_spec(fields)), alternatives, tasks, array)]
    api = _connect()
    code = fields["code"]
    files = {
        environment: "" if code is None else api.send_code(os.fspath(code), environment)
        for environment in {spec["environment"] for spec in specs}
    }
    jobs = []
    for spec in specs:
        spec["files_sha256"] = files[spec["environment"]]
        jobs.append(Job(api, _call(api, "Jobs/SubmitJob", {"spec": spec, "request_id": os.urandom(16).hex()})["job"]))
    return jobs


def _spec(fields: Mapping[str, Any]) -> dict[str, Any]:
    command = fields["command"]
    return {
        "name": fields["name"],
        "command": ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command],
        "setup": fields["setup"],
        "env": {name: str(value) for name, value in (fields["env"] or {}).items()},
        "secrets": {name: str(value) for name, value in (fields["secrets"] or {}).items()},
        "environment": fields["environment"],
        "nodes": fields["nodes"],
        "cpus": fields["cpus"],
        "gpus": fields["gpus"],
        "memory_bytes": fields["memory"],
        "resources": dict(fields["resources"] or {}),
        "mode": fields["mode"],
        "priority": fields["priority"],
        "duration_s": _whole(fields["duration"]),
        "max_restarts": fields["max_restarts"],
        "graceful_s": _whole(fields["graceful"]),
        "debug_s": _whole(fields["debug"]),
        "directory": fields["directory"],
        "node_names": list(fields["node_names"]),
        "labels": dict(fields["labels"] or {}),
        "project": fields["project"],
        "note": fields["note"],
        "isolated": fields["isolated"],
        "mounts": list(fields["mounts"]),
        "shm_bytes": fields["shm"],
        "pool": fields["pool"],
        "stop_signal": fields["stop_signal"],
        "output": fields["output"],
        "notify": list(fields["notify"]),
        "min_nodes": fields["min_nodes"],
        "grow": fields["grow"],
        "max_resumes": fields["max_resumes"],
        "teardown": fields["teardown"],
        "log_policies": [dict(policy) for policy in fields["log_policies"]],
        "access": fields["access"],
        "parameter_servers": fields["parameter_servers"],
        "share_nodes": fields["share_nodes"],
    }


def _start_of(row: Mapping[str, Any]) -> Start | None:
    start = row.get("start")
    if not start:
        return None

    def seconds(milliseconds: str) -> float | None:
        return int(milliseconds) / 1000 or None

    return Start(start["now"], start["never"], seconds(start["likely_ms"]), seconds(start["latest_ms"]), int(start["ahead"]))


__all__ = [
    "Job",
    "Line",
    "Rank",
    "Start",
    "get",
    "list_jobs",
    "predict",
    "queue",
    "set_queue",
    "submit",
    "submit_batch",
    "submit_one_of",
    "usage",
]
