"""Base of trial classes, and how they are found."""

from __future__ import annotations

import abc
import importlib
from typing import Any


class Trial(abc.ABC):
    """A user's model and its training, as methods that a trainer calls."""

    trial_context_class: type | None = None
    _trainer: str | None = None  # Module of volador.compat.determined whose train() a launcher calls.

    @abc.abstractmethod
    def __init__(self, context: Any) -> None: ...

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any: ...

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any: ...


class NoSuchClass(ValueError):
    """A trial class's name is malformed, or its module lacks it."""


def trial_class_of(spec: str) -> Any:
    """Of `module:Class`. NoSuchClass; what the import raises."""
    module, _, name = spec.partition(":")
    if not module or not name:
        raise NoSuchClass(f"expected module:Class, got {spec!r}; for example model_def:MNistTrial")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise NoSuchClass(f"there is no {name} in {module}; name a class that is defined there")
        found = getattr(found, part)
    return found
