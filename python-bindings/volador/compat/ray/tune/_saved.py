"""Ray's save(path) and restore(path) of searchers and schedulers as bytes."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def saved(save: Callable[[str], object]) -> bytes:
    """What save() writes to the path that it gets."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        save(path)
        with open(path, "rb") as file:
            return file.read()


def restored(restore: Callable[[str], object], state: bytes) -> None:
    """Gives restore() a path with the state."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state")
        with open(path, "wb") as file:
            file.write(state)
        restore(path)
