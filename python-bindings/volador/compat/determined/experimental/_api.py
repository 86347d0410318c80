"""Operations of Experiments and Models for a user's program."""

from __future__ import annotations

import datetime
import json
import os
from typing import Any

from volador import jobs


def call(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    return jobs._call(jobs._connect(), f"Experiments/{operation}", request)


def call_models(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    return jobs._call(jobs._connect(), f"Models/{operation}", request)


def send_code(folder: str) -> str:
    """SHA-256 of the folder's archive, which the cluster has afterwards."""
    return str(jobs._connect().send_code(folder))


def text_of(config: str | os.PathLike[str] | dict[str, Any]) -> tuple[str, str]:
    """The text of a configuration, and the name of its file; JSON is YAML."""
    if isinstance(config, dict):
        return json.dumps(config), ""
    with open(config, encoding="utf-8") as file:
        return file.read(), os.path.basename(os.fspath(config))


def time_of(milliseconds: str | int) -> datetime.datetime:
    """A Unix time."""
    return datetime.datetime.fromtimestamp(int(milliseconds) / 1000, datetime.timezone.utc)


def number_or_none(row: dict[str, Any], name: str) -> float | None:
    return None if row.get(name) is None else float(row[name])


def object_of(text: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(text) if text else {}
    return values
