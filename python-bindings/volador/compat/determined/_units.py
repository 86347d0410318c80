"""Lengths and periods of training."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from volador.compat.determined.core import Unit

if TYPE_CHECKING:
    from collections.abc import Container


class TrainUnit:
    """A period (an int: every value steps, every step below 1) or a schedule (a container of step numbers, counted from 1)."""

    def __init__(self, value: int | Container[int]) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def should_stop(self, step_num: int) -> bool:
        """Whether the period ends, or the schedule has an entry, after step_num steps."""
        if not isinstance(self.value, int):
            return step_num in self.value
        return self.value < 1 or (step_num > 0 and step_num % self.value == 0)

    @staticmethod
    def _from_values(
        batches: int | None = None, records: int | None = None, epochs: int | None = None, global_batch_size: int | None = None
    ) -> TrainUnit:
        """Exactly one is given; 0 is never."""
        given = [(unit, value) for unit, value in ((Unit.BATCHES, batches), (Unit.RECORDS, records), (Unit.EPOCHS, epochs)) if value is not None]
        if len(given) != 1:
            raise ValueError(f"period: expected exactly one of batches, records and epochs, got batches={batches}, records={records}, epochs={epochs}")
        unit, value = given[0]
        return TrainUnit._from_searcher_unit(value, unit, global_batch_size) if value >= 1 else Batch(sys.maxsize)

    @staticmethod
    def _from_searcher_unit(length: int, unit: Unit | None, global_batch_size: int | None = None) -> TrainUnit:
        if unit is Unit.EPOCHS:
            return Epoch(length)
        if unit is Unit.BATCHES:
            return Batch(length)
        if unit is Unit.RECORDS:
            if not global_batch_size:
                raise ValueError("a length in records needs the hyperparameter global_batch_size; add it, or give the length in batches")
            return Batch(max(length // global_batch_size, 1))
        raise ValueError(f"searcher.max_length: expected {{batches: {length}}}, {{epochs: {length}}} or {{records: {length}}}, got the bare number {length}")


class Batch(TrainUnit):
    """Steps are batches."""


class Epoch(TrainUnit):
    """Steps are epochs: passes through the training loader."""


def never() -> Any:
    return Batch(sys.maxsize)
