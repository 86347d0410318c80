"""Helpers for PyTorch in the function of a TorchTrainer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from volador.exceptions import InvalidArgumentError
from volador.train import _session

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["get_device", "prepare_data_loader", "prepare_model", "seed_everything"]


def get_device() -> torch.device:
    """The GPU of this worker, else the CPU."""
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def prepare_model(model: torch.nn.Module, *, move_to_device: bool = True, wrap_ddp: bool = True, **ddp_options: Any) -> torch.nn.Module:
    """Moves a model to this worker's device and, among several workers, wraps it in DistributedDataParallel, which
    averages gradients. ddp_options: of DistributedDataParallel. The model itself is model.module then."""
    session = _session.current("torch.prepare_model")
    device = get_device()
    if move_to_device:
        model = model.to(device)
    if not wrap_ddp or session.world == 1:
        return model
    if device.type == "cuda":
        ddp_options = {"device_ids": [0], "output_device": 0, **ddp_options}
    return torch.nn.parallel.DistributedDataParallel(model, **ddp_options)


def prepare_data_loader(loader: DataLoader[Any], *, shard: bool = True, move_to_device: bool = True, seed: int = 0) -> Any:
    """The loader with this worker's share of the data, in an order that is new in each epoch, and with its batches on
    the worker's device. Keeps the loader's options; a sampler of its own is kept too, and must shard itself.

    The number of the epoch follows from the number of iterations over the loader; loader.set_epoch(n) sets it, as a
    function that goes on from a checkpoint must."""
    session = _session.current("torch.prepare_data_loader")
    sampler = loader.sampler
    if shard and session.world > 1 and not isinstance(loader.dataset, IterableDataset) and not isinstance(sampler, DistributedSampler):
        own_batches = loader.batch_size is None and loader.batch_sampler is not None
        if own_batches or type(sampler) not in (RandomSampler, SequentialSampler):
            given = type(loader.batch_sampler if own_batches else sampler).__name__
            raise InvalidArgumentError(
                f"prepare_data_loader: the loader has a {given}, which cannot be split between {session.world} workers; "
                "give a DistributedSampler, or shard=False if it gives each worker its own rows"
            )
        own: DistributedSampler[Any] = DistributedSampler(
            loader.dataset,
            num_replicas=session.world,
            rank=session.context.rank,
            shuffle=type(sampler) is RandomSampler,
            seed=seed,
            drop_last=loader.drop_last,
        )
        loader = DataLoader(
            loader.dataset,
            batch_size=loader.batch_size,
            sampler=own,
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            drop_last=loader.drop_last,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=loader.generator,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )
    return _Loader(loader, get_device() if move_to_device else None)


class _Loader:
    """A DataLoader that counts epochs and moves batches."""

    def __init__(self, loader: DataLoader[Any], device: torch.device | None) -> None:
        self._loader = loader
        self._device = device
        self._epoch = self._sampled = 0  # Of the next iteration; of the last one, in the sampler.

    def __iter__(self) -> Iterator[Any]:
        sampler = self._loader.sampler
        if isinstance(sampler, DistributedSampler):
            if sampler.epoch != self._sampled:  # The function has called sampler.set_epoch().
                self._epoch = sampler.epoch
            self._sampled = self._epoch
            sampler.set_epoch(self._epoch)
        self._epoch += 1
        for batch in self._loader:
            yield batch if self._device is None or self._device.type == "cpu" else _to(batch, self._device)

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is that of epoch `epoch`, from 0 on."""
        self._epoch = epoch

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # Before __init__, as in unpickling.
            raise AttributeError(name)
        return getattr(self._loader, name)


def _to(batch: Any, device: torch.device) -> Any:
    if isinstance(batch, dict):
        return {key: _to(value, device) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        moved = [_to(value, device) for value in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch.to(device, non_blocking=True) if hasattr(batch, "to") else batch


def seed_everything(seed: int) -> None:
    """Seeds Python, numpy and PyTorch, on each worker differently: seed + rank."""
    seed += _session.current("torch.seed_everything").context.rank
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ImportError:
        return
    np.random.seed(seed % (1 << 32))
