"""ray.util.queue: a queue in an actor, shared by all who have it."""

from __future__ import annotations

import asyncio
import queue
from typing import TYPE_CHECKING, Any

import volador

if TYPE_CHECKING:
    from collections.abc import Iterable

Empty = queue.Empty
Full = queue.Full


class _QueueActor(volador.Actor):
    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.queue: asyncio.Queue[Any] | None = None  # Made on the loop.

    def _queue(self) -> asyncio.Queue[Any]:
        if self.queue is None:
            self.queue = asyncio.Queue(self.maxsize)
        return self.queue

    async def put(self, item: Any, timeout: float | None) -> None:
        try:
            await asyncio.wait_for(self._queue().put(item), timeout)
        except asyncio.TimeoutError:
            raise Full from None

    async def get(self, timeout: float | None) -> Any:
        try:
            return await asyncio.wait_for(self._queue().get(), timeout)
        except asyncio.TimeoutError:
            raise Empty from None

    async def put_nowait(self, items: list[Any]) -> None:
        if self.maxsize > 0 and len(items) + self._queue().qsize() > self.maxsize:
            raise Full(f"Cannot add {len(items)} items to queue of size {self._queue().qsize()} and maxsize {self.maxsize}.")
        for item in items:
            self._queue().put_nowait(item)

    async def get_nowait(self, count: int) -> list[Any]:
        if count > self._queue().qsize():
            raise Empty(f"Cannot get {count} items from queue of size {self._queue().qsize()}.")
        return [self._queue().get_nowait() for _ in range(count)]

    async def size(self) -> int:
        return self._queue().qsize()


class Queue:
    """maxsize 0: without limit. actor_options: options of the queue's actor, with Ray's names."""

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        from volador.compat.ray._ray_options import options_of

        self.maxsize = maxsize
        self.actor: Any = _QueueActor.options(**options_of(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        return int(self.actor.size.remote().result())

    qsize = size

    def empty(self) -> bool:
        return self.size() == 0

    def full(self) -> bool:
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Waits for room up to `timeout` seconds. Raises Full."""
        if not block:
            return self.put_nowait(item)
        self.actor.put.remote(item, _limit(timeout)).result()

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if not block:
            await self.actor.put_nowait.remote([item])
        else:
            await self.actor.put.remote(item, _limit(timeout))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Waits for an item up to `timeout` seconds. Raises Empty."""
        if not block:
            return self.get_nowait()
        return self.actor.get.remote(_limit(timeout)).result()

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        if not block:
            return (await self.actor.get_nowait.remote(1))[0]
        return await self.actor.get.remote(_limit(timeout))

    def put_nowait(self, item: Any) -> None:
        self.put_nowait_batch([item])

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        self.actor.put_nowait.remote(list(items)).result()

    def get_nowait(self) -> Any:
        return self.get_nowait_batch(1)[0]

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        return list(self.actor.get_nowait.remote(num_items).result())

    def shutdown(self, force: bool = False, grace_period_s: int = 5) -> None:
        """Ends the queue's actor."""
        volador.kill(self.actor, grace=0.0 if force else float(grace_period_s))


def _limit(timeout: float | None) -> float | None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    return timeout
