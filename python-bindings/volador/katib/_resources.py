"""Operations on resources in the form of Katib and of Kubernetes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from volador import exceptions, jobs

_SLICE_MS = 500  # A wait looks for Ctrl-C this often.


def _raise(what: str, error: Exception) -> NoReturn:
    """The exceptions of Katib's SDK."""
    if isinstance(error, TimeoutError):
        raise TimeoutError(f"{what}: {error}") from error
    raise RuntimeError(f"{what}: {error}") from error


def call(what: str, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """`what` names the attempt in errors. Raises RuntimeError, and TimeoutError."""
    try:
        return jobs._call(jobs._connect(), operation, dict(request))
    except (exceptions.VoladorError, OSError) as error:
        _raise(what, error)


def apply(what: str, resource: Mapping[str, Any], namespace: str, *, create_only: bool, code: str | os.PathLike[str] | None = None) -> list[str]:
    """Creates or changes a resource. code: a folder that travels with its commands. Returns warnings."""
    try:
        files = "" if code is None else jobs._connect().send_code(os.fspath(code), "")
    except (exceptions.VoladorError, OSError) as error:
        _raise(what, error)
    request = {
        "yaml": json.dumps(resource),
        "file_name": f"{resource['metadata']['name']}.json",
        "namespace": namespace,
        "files_sha256": files,
        "create_only": create_only,
        "request_id": os.urandom(16).hex(),
    }
    return [str(warning) for warning in call(what, "Katib/ApplyKatibResources", request).get("warnings", [])]


def delete(what: str, kind: str, namespace: str, name: str) -> None:
    request = {"kind": kind, "namespace": namespace, "name": name, "request_id": os.urandom(16).hex()}
    call(what, "Katib/DeleteKatibResource", request)


def rows(what: str, kind: str, namespace: str, name: str = "", labels: Mapping[str, str] | None = None) -> tuple[list[dict[str, Any]], int]:
    """Rows of v1.KatibResource, and the version from which wait() waits."""
    request = {"kind": kind, "namespace": namespace, "name": name, "labels": dict(labels or {}), "limit": 100_000}
    reply = call(what, "Katib/ListKatibResources", request)
    return list(reply.get("resources", [])), int(reply.get("version", 0))


def row(what: str, kind: str, namespace: str, name: str) -> tuple[dict[str, Any], int]:
    """Raises RuntimeError: there is none."""
    found, version = rows(what, kind, namespace, name)
    if not found:
        raise RuntimeError(f"{what}: there is no {kind} {name} in namespace {namespace}")
    return found[0], version


def object_of(found: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(found["object"])
    return made


def wait(
    what: str,
    kind: str,
    namespace: str,
    name: str,
    is_done: Callable[[dict[str, Any], dict[str, Any]], bool],
    timeout: float,
    told: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Returns the row when is_done(row, object) holds. told: is called with the object at the beginning and after each change.

    Raises TimeoutError: after `timeout` seconds; and as row()."""
    end = time.monotonic() + timeout
    found, version = row(what, kind, namespace, name)
    while True:
        resource = object_of(found)
        told(resource)
        if is_done(found, resource):
            return found
        changed = False
        while not changed:
            left_ms = int(1000 * (end - time.monotonic()))
            if left_ms <= 0:
                raise TimeoutError(f"{what}: it has not come to that after {timeout:g} s")
            request = {"selection": {"kind": kind, "namespace": namespace, "name": name}, "after": version, "wait_ms": min(left_ms, _SLICE_MS)}
            reply = call(what, "Katib/WatchKatibResources", request)
            version = int(reply.get("version", version))
            if reply.get("complete") and not reply.get("resources"):
                raise RuntimeError(f"{what}: {kind} {name} was deleted")
            for each in reply.get("resources", []):
                if each.get("deleted"):
                    raise RuntimeError(f"{what}: {kind} {name} was deleted")
                found, changed = each, True


def has_condition(resource: Mapping[str, Any], kind: str) -> bool:
    conditions = resource.get("status", {}).get("conditions") or []
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)
