"""Exchange of small objects between the processes of a trial over sockets, where torch.distributed is not initialised.

Rank 0 of a group listens and the others connect to it: on a socket of the machine for processes of one machine, else by TCP. Both sides prove that they know
the trial's token (HMAC, as multiprocessing does it) before any object is read."""

from __future__ import annotations

import os
import socket
import struct
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any

MEETING_S = 600.0  # Until all processes have met.
_PAUSE_S = 0.05
_HANDSHAKE_S = 10.0
_PORT_ABOVE = 1  # Beside the port that the launchers of PyTorch use.


class Star:
    """A group of `size` processes, of which this one is number `rank`. All construct it together, and call its methods in the same order.

    RuntimeError: they did not meet in time, or a process has ended."""

    def __init__(self, address: str | tuple[str, int], rank: int, size: int, key: bytes, meeting_s: float = MEETING_S) -> None:
        self._rank = rank
        self._peers: dict[int, Connection] = {}
        until = time.monotonic() + meeting_s
        if rank == 0:
            self._accept(address, size, key, until)
        else:
            self._peers[0] = _connect(address, rank, key, until)

    def _accept(self, address: str | tuple[str, int], size: int, key: bytes, until: float) -> None:
        with _listen(address, until) as listener:
            while len(self._peers) < size - 1:
                listener.settimeout(max(until - time.monotonic(), 0.001))
                try:
                    accepted, _ = listener.accept()
                except TimeoutError:
                    missing = sorted(set(range(1, size)) - set(self._peers))
                    raise RuntimeError(f"DistributedContext: the processes of ranks {missing} have not come; each process of the trial makes a DistributedContext") from None
                peer = _proved(accepted, key, listens=True)
                if peer is None:
                    continue  # A stranger.
                rank = _receive(peer, "a process that has just come")
                if rank in self._peers or not 0 < rank < size:
                    raise RuntimeError(f"DistributedContext: two processes have rank {rank} of {size}, or it is no rank; each process has its own, from 0")
                self._peers[rank] = peer

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def gather(self, stuff: Any) -> list[Any] | None:
        """By rank, at rank 0; None elsewhere."""
        self._check()
        if self._rank != 0:
            _send(self._peers[0], stuff, "the chief")
            return None
        return [stuff, *(_receive(self._peers[rank], f"rank {rank}") for rank in sorted(self._peers))]

    def broadcast(self, stuff: Any) -> Any:
        """The object of rank 0."""
        self._check()
        if self._rank != 0:
            return _receive(self._peers[0], "the chief")
        for rank, peer in self._peers.items():
            _send(peer, stuff, f"rank {rank}")
        return stuff

    def allgather(self, stuff: Any) -> list[Any]:
        gathered: list[Any] = self.broadcast(self.gather(stuff))
        return gathered

    def _check(self) -> None:
        if not self._peers:
            raise RuntimeError("DistributedContext: it is closed; exchange objects within `with core.init(…)`")


def groups_of(rank: int, size: int, local_rank: int, local_size: int, cross_rank: int, cross_size: int, chief_ip: str | None) -> tuple[Star | None, Star | None]:
    """The groups of all processes, and of those of this machine; the second one is the first one where there is one machine.

    RuntimeError: not in a trial of a cluster."""
    token = os.environ.get("VOLADOR_TOKEN", "")
    trial = f"{os.environ.get('VOLADOR_TRIAL', '')}.{os.environ.get('VOLADOR_TRIAL_RUN', '')}"
    if not token:
        raise RuntimeError(
            f"DistributedContext: {size} processes need torch.distributed here; call torch.distributed.init_process_group() first, "
            "or let determined.pytorch.init() do it under torchrun"
        )
    key = token.encode()
    # A name without a file, so that nothing is left over. Nodes of a test may share a machine.
    machine = f"\0volador-trial-{trial}.{os.environ.get('VOLADOR_JOB_ID', '')}.{cross_rank}"
    if cross_size == 1:
        whole = Star(machine, rank, size, key)
        return whole, whole
    chief = chief_ip or os.environ.get("DET_CHIEF_IP") or os.environ.get("MASTER_ADDR", "127.0.0.1")
    everyone = Star((chief, int(os.environ.get("MASTER_PORT", "29400")) + _PORT_ABOVE), rank, size, key)
    return everyone, Star(machine, local_rank, local_size, key) if local_size > 1 else None


def _listen(address: str | tuple[str, int], until: float) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    if not isinstance(address, str):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    while True:
        try:
            listener.bind(address)
            listener.listen(128)
            return listener
        except OSError as error:
            # An earlier run of the trial may be ending.
            if time.monotonic() > until:
                listener.close()
                raise RuntimeError(f"DistributedContext: the chief cannot listen on {address!r}: {error}") from error
            time.sleep(_PAUSE_S)


def _connect(address: str | tuple[str, int], rank: int, key: bytes, until: float) -> Connection:
    while True:
        try:
            if isinstance(address, str):
                there = socket.socket(socket.AF_UNIX)
                there.connect(address)
            else:
                there = socket.create_connection(address, timeout=_HANDSHAKE_S)
            peer = _proved(there, key, listens=False)
            if peer is not None:
                _send(peer, rank, "the chief")
                return peer
        except OSError:
            pass
        if time.monotonic() > until:
            raise RuntimeError(f"DistributedContext: the chief (rank 0) does not answer on {address!r}; each process of the trial makes a DistributedContext")
        time.sleep(_PAUSE_S)


def _proved(there: socket.socket, key: bytes, listens: bool) -> Connection | None:
    """The connection if both sides know the key; None: the other side does not, or is silent."""
    if there.family != socket.AF_UNIX:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    there.setblocking(True)
    _set_patience(there, int(_HANDSHAKE_S))
    peer = Connection(there.detach())
    try:
        if listens:
            deliver_challenge(peer, key)
            answer_challenge(peer, key)
        else:
            answer_challenge(peer, key)
            deliver_challenge(peer, key)
    except (AuthenticationError, EOFError, OSError, ValueError):
        peer.close()
        return None
    with socket.socket(fileno=os.dup(peer.fileno())) as same:
        _set_patience(same, 0)
    return peer


def _set_patience(there: socket.socket, seconds: int) -> None:
    """Reads and writes fail after this time; 0: they wait."""
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        there.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))


def _send(peer: Connection, stuff: Any, whom: str) -> None:
    try:
        peer.send(stuff)
    except OSError as error:
        raise RuntimeError(f"DistributedContext: {whom} has ended: {error}") from error


def _receive(peer: Connection, whom: str) -> Any:
    try:
        return peer.recv()
    except (EOFError, OSError) as error:
        raise RuntimeError(f"DistributedContext: {whom} has ended: {error or 'its connection was closed'}") from error
