"""One run of the training function on a rank: what report(), get_checkpoint() and get_context() refer to."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import gc
import os
import queue
import shutil
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import volador
from volador import _code, _core, _host, _values
from volador.tune import Checkpoint
from volador.train import _store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_JOIN_SECONDS = 20.0  # Limit for all ranks of a group to find each other.
# In the text of an error of a collective whose peer is gone; PyTorch gives them no type of their own.
_PEER_LOST = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "broken pipe", "connection refused")


@dataclasses.dataclass(frozen=True)
class Formation:
    """What a rank gets when a group is formed."""

    generation: int
    rank: int
    nodes: list[int]  # Index of each rank's node.
    backend: str
    store: Any  # Path of a file, or the handle of a Table.
    step: int  # Reports that are in the checkpoint.
    checkpoint: str | None  # Its folder.
    is_sent: bool  # Rank.receive() got its files: this rank cannot read the folder.
    folder: str  # Where the run's checkpoints lie.
    name: str
    timeout_s: float  # Limit of a collective.


@dataclasses.dataclass(frozen=True)
class TrainContext:
    """Place of a rank in its group. It changes when a group is formed anew, which starts the function again."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    name: str  # The run's.
    directory: str  # The run's, with its results; on the machine of the program that called fit().


class Left(BaseException):
    """Raised by report() where the group is formed anew: the function is started again. Do not catch it."""


_current: Session | None = None


def current(function: str) -> Session:
    if _current is None:
        raise RuntimeError(f"volador.train.{function}() has a meaning only inside the function that TorchTrainer runs on its workers")
    return _current


def is_running() -> bool:
    return _current is not None


class Session:
    """A rank in a group. run() is called on the thread of the function, the rest on those of the actor."""

    def __init__(self, formation: Formation) -> None:
        nodes, rank = formation.nodes, formation.rank
        self.formation = formation
        self.world = len(nodes)
        self.context = TrainContext(
            rank=rank,
            world_size=self.world,
            local_rank=nodes[:rank].count(nodes[rank]),
            local_world_size=nodes.count(nodes[rank]),
            node_rank=nodes[rank],
            name=formation.name,
            directory=os.path.dirname(formation.folder),
        )
        self.step = formation.step
        self.step_at = time.monotonic()
        self.items: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._shares_folder = os.path.isdir(formation.folder)
        self._is_pausing = self._is_aborted = False
        self._flags: Any = None
        self._checkpoint = self._take_checkpoint()
        try:
            self._join()
        except BaseException:
            self.leave()
            raise

    # ---- The group.

    def _join(self) -> None:
        import torch
        import torch.distributed as dist

        given = self.formation
        interface = "lo" if len(set(given.nodes)) == 1 else interface_of(volador.get_runtime_context()["node_address"])
        place = self.context
        # Libraries take LOCAL_RANK for the number of their GPU: a rank that sees its own only is a machine to them.
        alone = torch.cuda.is_available()
        os.environ.update(
            RANK=str(given.rank),
            WORLD_SIZE=str(self.world),
            LOCAL_RANK=str(0 if alone else place.local_rank),
            LOCAL_WORLD_SIZE=str(1 if alone else place.local_world_size),
            NODE_RANK=str(place.rank if alone else place.node_rank),
            GROUP_RANK=str(place.rank if alone else place.node_rank),
            GLOO_SOCKET_IFNAME=interface,
            NCCL_SOCKET_IFNAME=interface,
        )
        limit = datetime.timedelta(seconds=_JOIN_SECONDS)
        if isinstance(given.store, str):
            store: Any = dist.FileStore(given.store, self.world)
            store.set_timeout(limit)
        else:
            store = _store.store_of(given.store, _JOIN_SECONDS)
        dist.init_process_group(
            given.backend, store=store, rank=given.rank, world_size=self.world, timeout=datetime.timedelta(seconds=given.timeout_s)
        )
        self._flags = torch.zeros(self.world + 1, dtype=torch.int32)
        dist.all_reduce(self._flags)  # Connects the ranks, and fails here rather than in the function.

    def leave(self) -> None:
        """Ends the connections to the other ranks. Repeated: no effect."""
        dist = sys.modules.get("torch.distributed")
        if dist is not None and dist.is_initialized():
            with contextlib.suppress(Exception):  # The peers may be gone.
                dist.destroy_process_group()
        gc.collect()  # Modules of the function may hold the group, whose open connections others wait for.

    # ---- Requests.

    def pause(self) -> None:
        self._is_pausing = True

    def is_pausing(self) -> bool:
        """Whether the group waits for this rank to leave at its next checkpoint."""
        return self._is_pausing

    def abort(self) -> None:
        """A rank that waits for a peer is released when that one leaves, by the end of its connection."""
        self._is_aborted = True
        torch = sys.modules.get("torch")
        if torch is None or not torch.cuda.is_available():
            return
        with contextlib.suppress(Exception):  # NCCL waits for ever otherwise.
            torch.distributed.distributed_c10d._abort_process_group()

    # ---- The function.

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Puts items until ("end", how, step, text): finished, paused, aborted or failed. Never raises."""
        global _current
        _host._set_threads(_core.granted_threads())
        _current = self
        self.step_at = time.monotonic()
        how, text = "finished", ""
        try:
            function(*arguments)
        except Left:
            how = "aborted" if self._is_aborted else "paused"
        except BaseException as error:
            how, text = self._judge(error)
        finally:
            _current = None
            self.leave()
            _host.flush()
        self.items.put(("end", how, self.step, text))

    def _judge(self, error: BaseException) -> tuple[str, str]:
        try:
            if self._is_aborted or (self.world > 1 and _is_of_peer(error)):
                return "aborted", f"{type(error).__name__}: {error}"
            trace = error.__traceback__
            error = error.with_traceback(trace.tb_next if trace is not None else None)
            return "failed", _values.exception_text(error)
        finally:
            traceback.clear_frames(error.__traceback__)

    def report(self, metrics: Mapping[str, Any], checkpoint: Checkpoint | str | os.PathLike[str] | None) -> None:
        if self._is_aborted:
            raise Left
        with_files, pauses = [0] if checkpoint is not None else [], self._is_pausing
        if self.world > 1:
            import torch.distributed as dist

            self._flags.zero_()
            self._flags[self.context.rank] = checkpoint is not None
            self._flags[self.world] = self._is_pausing
            dist.all_reduce(self._flags)
            *given, pausing = self._flags.tolist()
            with_files, pauses = [rank for rank, flag in enumerate(given) if flag], pausing > 0
        self.step += 1
        self.step_at = time.monotonic()
        if checkpoint is not None:
            path = checkpoint.path if isinstance(checkpoint, Checkpoint) else os.fspath(checkpoint)
            self._store_files(path)
            self.items.put(("files", self.step, self.context.rank))
        if self.context.rank == 0:
            self.items.put(("report", self.step, dict(metrics), with_files))
        if pauses and with_files:
            raise Left

    def publish(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Metrics for the run's lists and files, without waiting for other ranks; for loops that know their own steps."""
        self.step_at = time.monotonic()
        self.items.put(("report", step, dict(metrics), []))

    # ---- Checkpoints.

    @property
    def checkpoint(self) -> Checkpoint | None:
        return self._checkpoint

    def _take_checkpoint(self) -> Checkpoint | None:
        given = self.formation
        if given.checkpoint is None:
            return None
        return Checkpoint(received_folder() if given.is_sent else given.checkpoint, given.step)

    def _store_files(self, path: str) -> None:
        if self._shares_folder:
            shutil.copytree(path, pending_folder(self.formation.folder, self.formation.generation, self.step), dirs_exist_ok=True)
            return
        for name, part in parts_of(path):
            self.items.put(("part", self.step, name, part))


def pending_folder(folder: str, generation: int, step: int) -> str:
    """Of a checkpoint that is not complete yet."""
    return os.path.join(folder, f".{generation}_{step:06d}")


def received_folder() -> str:
    """Of a checkpoint that the trainer has sent to this rank."""
    return os.path.join(volador.get_runtime_context()["scratch"], "checkpoint")


def parts_of(folder: str) -> Iterator[tuple[str, bytes]]:
    """All files below a folder: relative path and contents, in parts that travel within calls."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                part = file.read(_code.PART_BYTES)
                while True:
                    yield os.path.relpath(path, folder), part
                    part = file.read(_code.PART_BYTES)
                    if not part:
                        break


def append(folder: str, name: str, part: bytes) -> None:
    """Adds a part to a file below a folder."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        file.write(part)


def _is_of_peer(error: BaseException | None) -> bool:
    """Whether a collective failed because of another rank, here or in what this error was raised from."""
    import torch.distributed as dist

    while error is not None:
        if isinstance(error, dist.DistError):
            return True
        if isinstance(error, RuntimeError) and any(text in str(error).lower() for text in _PEER_LOST):
            return True
        error = error.__cause__ or error.__context__
    return False


def interface_of(address: str) -> str:
    """Name of the network interface that has this IP address."""
    import fcntl
    import struct

    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            packed = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            if socket.inet_ntoa(packed[20:24]) == address:
                return name
    raise volador.exceptions.UnavailableError(
        f"no network interface of this machine has the node's address {address or '(unknown)'}, by which the ranks of other nodes reach it; "
        "start the worker with --bind=ADDRESS of an interface that the other nodes reach"
    )
