"""Inside the process of a trial. Called by the extension."""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

from volador import _code, _values

if TYPE_CHECKING:
    from collections.abc import Callable


class TrialEnd(BaseException):
    """The trial has ended: raised by report() in its function, so that finally blocks run. Do not catch it."""


def load(packed: _values.Packed) -> tuple[bool, Any]:
    """Whether the trainable is a class, and its trial or its function."""
    trainable = _code.unpack(packed)
    target: Any = trainable
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while hasattr(target, "func") and hasattr(target, "keywords"):  # functools.partial
        args, kwargs, target = target.args + args, {**target.keywords, **kwargs}, target.func
    if inspect.isclass(target):
        return True, ClassTrial(lambda: target(*args, **kwargs))
    return False, trainable


class ClassTrial:
    """One attempt of a trial of a class."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.target = make()

    def setup(self, config: str) -> None:
        self.target.config = json.loads(config)
        if hasattr(self.target, "setup"):
            self.target.setup(self.target.config)

    def step(self) -> dict[str, float]:
        return metrics_of(self.target.step())

    def save(self, directory: str) -> bool:
        if not _has(self.target, "save_checkpoint"):
            return False
        self.target.save_checkpoint(directory)
        return True

    def load(self, directory: str) -> None:
        self.target.load_checkpoint(directory)

    def cleanup(self) -> None:
        if hasattr(self.target, "cleanup"):
            self.target.cleanup()

    def reset(self, config: str) -> bool:
        return bool(hasattr(self.target, "reset_config") and self.target.reset_config(json.loads(config)))


def _has(target: Any, name: str) -> bool:
    from volador.tune import Trainable

    method = getattr(type(target), name, None)
    return method is not None and method is not getattr(Trainable, name, None)


def run(function: Callable[[dict[str, Any]], Any], config: str) -> None:
    """Runs a trial's function; metrics that it returns are its last report."""
    from volador.tune import report

    last = function(json.loads(config))
    if isinstance(last, dict):
        report(last)


def metrics_of(result: Any) -> dict[str, float]:
    """Numbers by name; nested dictionaries are joined by "/". Raises TypeError for what is not a number."""
    if not isinstance(result, dict):
        raise TypeError(f"metrics: expected a dictionary of numbers, got a {type(result).__name__}")
    metrics: dict[str, float] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for inner, each in value.items():
                add(f"{name}/{inner}", each)
            return
        if not isinstance(value, (str, bytes)):
            try:
                metrics[name] = float(value)
                return
            except (TypeError, ValueError):
                pass
        raise TypeError(f"metrics: {name} is {value!r}; expected a number")

    for name, value in result.items():
        add(str(name), value)
    return metrics


def describe(error: BaseException) -> str:
    """Type, text and place of a trial's exception in one line; its traceback goes to the trial's log."""
    traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(os.path.dirname(os.path.dirname(__file__))):
            place = f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    return f"{type(error).__name__}: {error}{place}"
