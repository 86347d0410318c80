"""Ranks and small messages between the processes of a trial, over torch.distributed where it is initialised, else over sockets."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from volador.compat.determined.core import _exchange


class DistributedContext:
    """Place of this process among those of the trial, and exchange of objects that can be pickled.

    With size > 1, all processes construct the context together: torch.distributed is initialised in all of them, or in none, in a trial that a cluster
    runs. Each exchange is called by all processes (the _local ones by all of a machine) in the same order. Not meant for tensors of a training step."""

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
        self._chief_ip = chief_ip
        self._all: Any = None
        self._local: Any = None
        if size > 1:
            self._connect()

    def _connect(self) -> None:
        dist = _initialized()
        if dist is None:
            self._all, self._local = _exchange.groups_of(
                self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size, self._chief_ip
            )
            return
        if dist.get_world_size() != self.size or dist.get_rank() != self.rank:
            raise ValueError(
                f"DistributedContext: rank {self.rank} of {self.size} does not agree with torch.distributed, "
                f"which has rank {dist.get_rank()} of {dist.get_world_size()}"
            )
        # Objects travel over gloo: with nccl they would need a device.
        self._all = _TorchGroup(dist.new_group(backend="gloo"), list(range(self.size)), self.rank)
        machines = self.allgather(self.cross_rank)
        for machine in sorted(set(machines)):
            ranks = [rank for rank, its in enumerate(machines) if its == machine]
            group = dist.new_group(ranks, backend="gloo") if len(ranks) > 1 else None
            if machine == self.cross_rank and group is not None:
                self._local = _TorchGroup(group, ranks, self.rank)

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
        """From an initialised module of Horovod, such as horovod.torch."""
        return cls(
            rank=hvd.rank(),
            size=hvd.size(),
            local_rank=hvd.local_rank(),
            local_size=hvd.local_size(),
            cross_rank=hvd.cross_rank(),
            cross_size=hvd.cross_size(),
            chief_ip=chief_ip,
        )

    @classmethod
    def from_tf_config(cls) -> DistributedContext:
        """From TF_CONFIG, with one process on each machine. RuntimeError: it is not set, or this process is no worker."""
        text = os.environ.get("TF_CONFIG")
        if text is None:
            raise RuntimeError("from_tf_config: TF_CONFIG is not set; start the program with determined.launch.tensorflow")
        config = json.loads(text)
        workers, task = config["cluster"]["worker"], config["task"]
        if task["type"] != "worker":
            raise RuntimeError(f"from_tf_config: this process is the task {task['type']}, expected a worker; other tasks make no DistributedContext")
        chief = str(workers[0]).rpartition(":")[0]
        return cls(rank=task["index"], size=len(workers), local_rank=0, local_size=1, cross_rank=task["index"], cross_size=len(workers), chief_ip=chief)

    def close(self) -> None:
        """Repeated: no effect. Leaves torch.distributed as it is."""
        for group in (self._all, self._local):
            if group is not None:
                group.close()

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
        gathered: list[Any] | None = self._all.gather(stuff)
        return gathered

    def gather_local(self, stuff: Any) -> list[Any] | None:
        if self.local_size < 2:
            return [stuff]
        gathered: list[Any] | None = self._local.gather(stuff)
        return gathered

    def allgather(self, stuff: Any) -> list[Any]:
        """Everyone's value by rank, everywhere."""
        return [stuff] if self.size < 2 else self._all.allgather(stuff)

    def allgather_local(self, stuff: Any) -> list[Any]:
        return [stuff] if self.local_size < 2 else self._local.allgather(stuff)

    def broadcast(self, stuff: Any) -> Any:
        """The chief's value, everywhere."""
        return stuff if self.size < 2 else self._all.broadcast(stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        return stuff if self.local_size < 2 else self._local.broadcast(stuff)


def _initialized() -> Any:
    """torch.distributed, where the program has initialised it; else None."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


class _TorchGroup:
    """A process group of torch.distributed with these ranks; as _exchange.Star."""

    def __init__(self, group: Any, ranks: list[int], rank: int) -> None:
        self._group = group
        self._ranks = ranks
        self._rank = rank

    def close(self) -> None:
        self._group = None

    def gather(self, stuff: Any) -> list[Any] | None:
        gathered: list[Any] | None = [None] * len(self._ranks) if self._rank == self._ranks[0] else None
        self._dist().gather_object(stuff, gathered, dst=self._ranks[0], group=self._group)
        return gathered

    def allgather(self, stuff: Any) -> list[Any]:
        gathered: list[Any] = [None] * len(self._ranks)
        self._dist().all_gather_object(gathered, stuff, group=self._group)
        return gathered

    def broadcast(self, stuff: Any) -> Any:
        box = [stuff]
        self._dist().broadcast_object_list(box, src=self._ranks[0], group=self._group)
        return box[0]

    def _dist(self) -> Any:
        if self._group is None:
            raise RuntimeError("DistributedContext: it is closed; exchange objects within `with core.init(…)`")
        return _initialized()


class DummyDistributedContext(DistributedContext):
    """One process."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)
