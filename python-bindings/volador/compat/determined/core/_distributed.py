"""Ranks and small messages between the processes of a trial, over torch.distributed."""

from __future__ import annotations

import os
from typing import Any


class DistributedContext:
    """Place of this process among those of the trial, and exchange of objects that can be pickled.

    With size > 1, torch.distributed must be initialised in all processes, and all construct the context together. Each exchange is called by
    all processes (the _local ones by all of a machine) in the same order. Not meant for tensors of a training step."""

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: str | None = None,
        **ignored: Any,
    ) -> None:
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.local_size = local_size
        self.cross_rank = cross_rank
        self.cross_size = cross_size
        self._all: Any = None
        self._local: Any = None
        self._local_ranks = [rank]
        if size > 1:
            self._connect()

    def _connect(self) -> None:
        import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                f"DistributedContext: {self.size} processes need torch.distributed; call torch.distributed.init_process_group() first, "
                "or let determined.pytorch.init() do it under torchrun"
            )
        if dist.get_world_size() != self.size or dist.get_rank() != self.rank:
            raise ValueError(
                f"DistributedContext: rank {self.rank} of {self.size} does not agree with torch.distributed, "
                f"which has rank {dist.get_rank()} of {dist.get_world_size()}"
            )
        # Objects travel over gloo: with nccl they would need a device.
        self._all = dist.new_group(backend="gloo")
        machines = self.allgather(self.cross_rank)
        for machine in sorted(set(machines)):
            ranks = [rank for rank, its in enumerate(machines) if its == machine]
            group = dist.new_group(ranks, backend="gloo") if len(ranks) > 1 else None
            if machine == self.cross_rank:
                self._local, self._local_ranks = group, ranks

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """From the variables that torchrun sets; where only torch.distributed is initialised, all processes count as those of one machine."""
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            size = int(os.environ["WORLD_SIZE"])
            rank = int(os.environ["RANK"])
            local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
            return cls(
                rank=rank,
                size=size,
                local_rank=int(os.environ.get("LOCAL_RANK", rank % local_size)),
                local_size=local_size,
                cross_rank=int(os.environ.get("GROUP_RANK", rank // local_size)),
                cross_size=int(os.environ.get("GROUP_WORLD_SIZE", max(size // local_size, 1))),
                chief_ip=chief_ip,
            )
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError("from_torch_distributed: neither RANK and WORLD_SIZE are set nor torch.distributed is initialised; start with torchrun")
        rank, size = dist.get_rank(), dist.get_world_size()
        return cls(rank=rank, size=size, local_rank=rank, local_size=size, cross_rank=0, cross_size=1, chief_ip=chief_ip)

    @classmethod
    def from_deepspeed(cls, chief_ip: str | None = None) -> DistributedContext:
        """From the variables that DeepSpeed's launcher sets; torch.distributed is initialised before."""
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
        rank, size, local_rank, local_size, cross_rank, cross_size = (int(os.environ[name]) for name in names)
        return cls(rank=rank, size=size, local_rank=local_rank, local_size=local_size, cross_rank=cross_rank, cross_size=cross_size)

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        raise NotImplementedError("DistributedContext.from_horovod: Volador exchanges over torch.distributed; use from_torch_distributed() under torchrun")

    def close(self) -> None:
        """Repeated: no effect. Leaves torch.distributed as it is."""
        self._all = self._local = None

    def get_rank(self) -> int:
        return self.rank

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_size(self) -> int:
        return self.size

    def get_num_agents(self) -> int:
        """Machines of the trial."""
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        """Everyone's value by rank, at the chief (rank 0); None elsewhere."""
        if self.size < 2:
            return [stuff]
        gathered = _gather(self._all, stuff, 0, self.size, self.rank == 0)
        return gathered if self.rank == 0 else None

    def gather_local(self, stuff: Any) -> list[Any] | None:
        if self.local_size < 2:
            return [stuff]
        gathered = _gather(self._local, stuff, self._local_ranks[0], self.local_size, self.local_rank == 0)
        return gathered if self.local_rank == 0 else None

    def allgather(self, stuff: Any) -> list[Any]:
        """Everyone's value by rank, everywhere."""
        return [stuff] if self.size < 2 else _allgather(self._all, stuff, self.size)

    def allgather_local(self, stuff: Any) -> list[Any]:
        return [stuff] if self.local_size < 2 else _allgather(self._local, stuff, self.local_size)

    def broadcast(self, stuff: Any) -> Any:
        """The chief's value, everywhere."""
        return stuff if self.size < 2 else _broadcast(self._all, stuff, 0)

    def broadcast_local(self, stuff: Any = None) -> Any:
        return stuff if self.local_size < 2 else _broadcast(self._local, stuff, self._local_ranks[0])


def _gather(group: Any, stuff: Any, to: int, size: int, here: bool) -> list[Any] | None:
    import torch.distributed as dist

    _check(group)
    gathered: list[Any] | None = [None] * size if here else None
    dist.gather_object(stuff, gathered, dst=to, group=group)
    return gathered


def _allgather(group: Any, stuff: Any, size: int) -> list[Any]:
    import torch.distributed as dist

    _check(group)
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, stuff, group=group)
    return gathered


def _broadcast(group: Any, stuff: Any, source: int) -> Any:
    import torch.distributed as dist

    _check(group)
    box = [stuff]
    dist.broadcast_object_list(box, src=source, group=group)
    return box[0]


def _check(group: Any) -> None:
    if group is None:
        raise RuntimeError("DistributedContext: it is closed; exchange objects within `with core.init(…)`")


class DummyDistributedContext(DistributedContext):
    """One process."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)
