"""Samplers to be combined: shuffle, then repeat, then share among ranks, then skip what was trained before.

Each wraps a sampler of records or of batches. Names with Batch are those for torch.utils.data.DataLoader(batch_sampler=…)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.utils.data  # type: ignore[import-not-found, unused-ignore]

if TYPE_CHECKING:
    from collections.abc import Iterator


class RepeatSampler(torch.utils.data.Sampler[Any]):  # type: ignore[misc, unused-ignore]
    """Without end. Its length is that of one pass."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        while True:
            count = 0
            for each in self._sampler:
                count += 1
                yield each
            if count == 0:
                return


class RepeatBatchSampler(RepeatSampler):
    def __init__(self, batch_sampler: Any) -> None:
        super().__init__(batch_sampler)
        self.batch_sampler = batch_sampler


class DistributedSampler(torch.utils.data.Sampler[Any]):  # type: ignore[misc, unused-ignore]
    """Items rank, rank + num_workers, rank + 2 * num_workers, …; num_workers is the number of processes."""

    def __init__(self, sampler: Any, num_workers: int, rank: int) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers: expected at least 1, got {num_workers}")
        if not 0 <= rank < num_workers:
            raise ValueError(f"rank: expected 0 to {num_workers - 1}, got {rank}")
        self._sampler = sampler
        self.num_workers = num_workers
        self.rank = rank

    def __len__(self) -> int:
        whole, rest = divmod(len(self._sampler), self.num_workers)
        return whole + int(rest > self.rank)

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._sampler), self.rank, None, self.num_workers)


class DistributedBatchSampler(DistributedSampler):
    def __init__(self, batch_sampler: Any, num_workers: int, rank: int) -> None:
        super().__init__(batch_sampler, num_workers, rank)
        self.batch_sampler = batch_sampler


class SkipSampler(torch.utils.data.Sampler[Any]):  # type: ignore[misc, unused-ignore]
    """Without the first items of each pass; repeat first. Its length is that of the whole, so that epochs keep their number."""

    def __init__(self, sampler: Any, skip: int) -> None:
        self._sampler = sampler
        self.skip = skip

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self._sampler), self.skip, None)


class SkipBatchSampler(SkipSampler):
    def __init__(self, batch_sampler: Any, skip: int) -> None:
        super().__init__(batch_sampler, skip)
        self.batch_sampler = batch_sampler


class ReproducibleShuffleSampler(torch.utils.data.Sampler[Any]):  # type: ignore[misc, unused-ignore]
    """An order for each pass that the seed decides, whatever else draws random numbers."""

    def __init__(self, sampler: Any, seed: int) -> None:
        self._sampler = sampler
        self._rng = np.random.RandomState(seed)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self._sampler, torch.utils.data.SequentialSampler):
            order = np.arange(len(self._sampler))  # Much faster than a list, and the same order.
            self._rng.shuffle(order)
            return iter(order.tolist())
        items = list(self._sampler)
        self._rng.shuffle(items)
        return iter(items)


class ReproducibleShuffleBatchSampler(ReproducibleShuffleSampler):
    """Shuffles whole batches; prefer to shuffle records, so that batches differ between epochs."""

    def __init__(self, batch_sampler: Any, seed: int) -> None:
        super().__init__(batch_sampler, seed)
        self.batch_sampler = batch_sampler
