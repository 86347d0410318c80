"""Batches: their loader, their length and their device."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.utils.data  # type: ignore[import-not-found, unused-ignore]

from volador.compat.determined.pytorch import samplers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TorchData = Union[dict[str, torch.Tensor], list[torch.Tensor], tuple[torch.Tensor, ...], torch.Tensor]


class _TrialShuffleSampler(samplers.ReproducibleShuffleSampler):
    """Seeded by the trainer; without one, at its first pass by torch.initial_seed()."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._rng: Any = None

    def seed(self, seed: int) -> None:
        self._rng = np.random.RandomState(seed % 2**32)

    def __iter__(self) -> Iterator[Any]:
        if self._rng is None:
            self.seed(torch.initial_seed())
        return super().__iter__()


class DataLoader:
    """Arguments of torch.utils.data.DataLoader, from which the trainer makes the loader of each process.

    Training: shuffle, repeat, batch, take batches rank, rank + size, …, skip those that were trained before a restart. The order of shuffle=True
    depends on the trial's seed and the epoch alone, unless a generator is given. Validation: neither repeated nor skipped.
    ValueError: an IterableDataset, no batches, or arguments that exclude each other."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if isinstance(dataset, torch.utils.data.IterableDataset):
            raise ValueError(
                "pytorch.DataLoader: an IterableDataset cannot be shared among processes or continued; use a map-style dataset, or return a "
                "torch.utils.data.DataLoader after context.experimental.disable_dataset_reproducibility_checks()"
            )
        if batch_sampler is None and batch_size is None:
            raise ValueError("pytorch.DataLoader: batch_size=None without a batch_sampler gives no batches; pass one of the two")
        if sampler is not None and shuffle:
            raise ValueError("pytorch.DataLoader: sampler and shuffle=True exclude each other; shuffle in the sampler")
        if batch_sampler is not None and (batch_size not in (1, None) or shuffle or sampler is not None or drop_last):
            raise ValueError("pytorch.DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last; leave them out")
        self._shuffled: _TrialShuffleSampler | None = None
        if batch_sampler is None:
            if sampler is None:
                sampler = torch.utils.data.SequentialSampler(dataset)
                if shuffle and generator is not None:
                    sampler = torch.utils.data.RandomSampler(dataset, generator=generator)
                elif shuffle:
                    sampler = self._shuffled = _TrialShuffleSampler(sampler)
            batch_sampler = torch.utils.data.BatchSampler(sampler, batch_size, drop_last)  # type: ignore[arg-type, unused-ignore]
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self._arguments: dict[str, Any] = {
            "num_workers": num_workers,
            "collate_fn": collate_fn,
            "pin_memory": pin_memory,
            "timeout": timeout,
            "worker_init_fn": worker_init_fn,
            "multiprocessing_context": multiprocessing_context,
            "generator": generator,
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
        }
        self.get_data_loader()  # Checks the other arguments now.

    def __getattr__(self, name: str) -> Any:
        arguments = self.__dict__.get("_arguments", {})
        if name in arguments:
            return arguments[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_data_loader(
        self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0, *, seed: int | None = None
    ) -> Any:
        """A torch.utils.data.DataLoader. seed: begins the orders of shuffle=True anew."""
        if seed is not None and self._shuffled is not None:
            self._shuffled.seed(seed)
        adapted = adapt_batch_sampler(self.batch_sampler, repeat=repeat, skip=skip, num_replicas=num_replicas, rank=rank)
        return torch.utils.data.DataLoader(self.dataset, batch_sampler=adapted, **self._arguments)

    def __iter__(self) -> Iterator[Any]:
        """One pass, as of torch's loader."""
        return iter(self.get_data_loader())

    def __len__(self) -> int:
        """Batches of one pass over all ranks."""
        return len(self.batch_sampler)


def adapt_batch_sampler(batch_sampler: Any, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0) -> Any:
    """Repeats, shares and skips, in this order, so that skip counts batches of one rank."""
    if repeat:
        batch_sampler = samplers.RepeatBatchSampler(batch_sampler)
    if num_replicas > 1:
        batch_sampler = samplers.DistributedBatchSampler(batch_sampler, num_replicas, rank)
    if skip > 0:
        batch_sampler = samplers.SkipBatchSampler(batch_sampler, skip)
    return batch_sampler


def data_length(data: Any) -> int:
    """Records in a batch: length of the first array or tensor in it."""
    if isinstance(data, (np.ndarray, torch.Tensor)):
        return len(data)
    if isinstance(data, (dict, list, tuple)):
        if not data:
            raise ValueError(f"data_length: an empty {type(data).__name__} has no array or tensor; define get_batch_length() in the trial")
        first = next(iter(data.values())) if isinstance(data, dict) else data[0]
        return data_length(first) if isinstance(first, (dict, list, tuple)) else len(first)
    raise TypeError(f"data_length: expected an array, a tensor, or a list, tuple or dictionary of them, got a {type(data).__name__}; define get_batch_length() in the trial")


def to_device(data: Any, device: torch.device, warned_types: set[type] | None = None) -> Any:
    """Moves tensors, numeric arrays and whatever has to() in nested lists, tuples and dictionaries.

    Other values stay, with one warning for each type in warned_types."""
    if isinstance(data, torch.Tensor):
        return data.to(device)
    warned = set() if warned_types is None else warned_types
    if isinstance(data, dict):
        return {key: to_device(each, device, warned) for key, each in data.items()}
    if isinstance(data, list):
        return [to_device(each, device, warned) for each in data]
    if isinstance(data, tuple):
        moved = [to_device(each, device, warned) for each in data]
        return type(data)(*moved) if hasattr(data, "_fields") else tuple(moved)
    if isinstance(data, np.ndarray) and data.dtype.kind in "fciub":
        return torch.from_numpy(data).to(device)
    if callable(getattr(data, "to", None)):
        return data.to(device)
    if type(data) not in warned:
        warned.add(type(data))
        logging.warning("to_device: a value of type %s stays where it is; it has no to(device)", type(data).__name__)
    return data
