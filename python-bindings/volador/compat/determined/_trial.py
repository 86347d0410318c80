"""Base of trial classes."""

from __future__ import annotations

import abc
from typing import Any


class Trial(abc.ABC):
    """A user's model and its training, as methods that a trainer calls."""

    trial_context_class: type | None = None

    @abc.abstractmethod
    def __init__(self, context: Any) -> None: ...

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any: ...

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any: ...
