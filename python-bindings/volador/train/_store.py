"""The table by which ranks on several nodes find each other, over the cluster's authenticated connections."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import volador


class Table(volador.Actor):
    """Values by key, in an actor of the run."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._changed = asyncio.Event()

    def _set(self, key: str, value: bytes) -> None:
        self._values[key] = value
        self._changed.set()
        self._changed = asyncio.Event()

    async def set(self, key: str, value: bytes) -> None:
        self._set(key, value)

    async def wait(self, keys: list[str], timeout: float) -> bool:
        """Whether all keys have a value within the time."""
        deadline = asyncio.get_running_loop().time() + timeout
        while not all(key in self._values for key in keys):
            left = deadline - asyncio.get_running_loop().time()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                return False
        return True

    async def get(self, key: str) -> bytes:
        return self._values[key]

    async def add(self, key: str, amount: int) -> int:
        sum_ = int(self._values.get(key, b"0")) + amount
        self._set(key, str(sum_).encode())
        return sum_

    async def check(self, keys: list[str]) -> bool:
        return all(key in self._values for key in keys)

    async def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        if self._values.get(key, b"" if not expected else None) == expected:
            self._set(key, desired)
        return self._values.get(key, expected)

    async def delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    async def num_keys(self) -> int:
        return len(self._values)


def store_of(table: Any, timeout_s: float) -> Any:
    """A torch.distributed.Store on a Table. Values are removed with the table."""
    import torch.distributed as dist

    def content(value: str | bytes) -> bytes:
        return value.encode() if isinstance(value, str) else bytes(value)

    class TableStore(dist.Store):  # type: ignore[misc]
        def set(self, key: str, value: str) -> None:
            table.set.remote(key, content(value)).result()

        def get(self, key: str) -> bytes:
            self.wait([key])
            return bytes(table.get.remote(key).result())

        def add(self, key: str, value: int) -> int:
            return int(table.add.remote(key, value).result())

        def check(self, keys: list[str]) -> bool:
            return bool(table.check.remote(list(keys)).result())

        def wait(self, keys: list[str], timeout: datetime.timedelta | None = None) -> None:
            limit = timeout_s if timeout is None else min(timeout_s, timeout.total_seconds())
            if not table.wait.remote(list(keys), limit).result():
                raise dist.DistStoreError(f"the other ranks did not come within {limit:g} s; missing: {', '.join(keys)}")

        def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
            return bytes(table.compare_set.remote(key, content(expected_value), content(desired_value)).result())

        def delete_key(self, key: str) -> bool:
            return bool(table.delete_key.remote(key).result())

        def num_keys(self) -> int:
            return int(table.num_keys.remote().result())

        def set_timeout(self, timeout: datetime.timedelta) -> None:
            pass

        @property
        def timeout(self) -> datetime.timedelta:
            return datetime.timedelta(seconds=timeout_s)

    return TableStore()
