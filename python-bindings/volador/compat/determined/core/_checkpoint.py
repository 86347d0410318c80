"""Checkpoints: folders named by an id below one storage folder."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import hashlib
import json
import logging
import os
import pathlib
import shutil
import uuid
from typing import TYPE_CHECKING, Any

from volador import exceptions
from volador.compat.determined import errors
from volador.compat.determined.core import _train
from volador.compat.determined.core._distributed import DistributedContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from volador.compat.determined._session import Session
    from volador.storage import Storage

    Selector = Callable[[str], bool]

_logger = logging.getLogger("determined.core")
METADATA = "metadata.json"


class DownloadMode(enum.Enum):
    """LocalWorkersShareDownload: all processes call together, and those of a machine share one copy. NoSharedDownload: each for itself."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


class CheckpointContext:
    """Writes, reads and deletes checkpoints below a folder that all machines of the trial see. With an object store they are copied to it when they
    are complete, and read from it where the folder does not have them.

    metadata must have "steps_completed", an integer; it is stored as metadata.json in the checkpoint.
    session: the head is told of new and deleted checkpoints. passing: the folder is one of this machine, from which a checkpoint is removed when the
    object store has it, or when it was read."""

    def __init__(
        self,
        dist: DistributedContext,
        storage: str | os.PathLike[str],
        object_store: Storage | None = None,
        session: Session | None = None,
        passing: bool = False,
    ) -> None:
        self._dist = dist
        self._storage = pathlib.Path(storage)
        self._object_store = object_store
        self._session = session
        self._passing = passing

    def upload(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None = None,
        *,
        shard: bool = False,
        selector: Selector | None = None,
    ) -> str:
        """Copies a folder into the storage and returns its new id.

        shard=False: the chief only. shard=True: all processes together, their folders are united (None: nothing from this one); one file with two
        contents, or a key of metadata with two values, is a RuntimeError. selector: whether to take a path relative to ckpt_dir.
        ValueError: metadata has no steps_completed."""
        if not shard:
            self._check_chief("upload")
            if ckpt_dir is None:
                raise RuntimeError("CheckpointContext.upload: ckpt_dir is None, so there is nothing to upload; name a folder")
            _check_metadata(metadata)
            storage_id = str(uuid.uuid4())
            files = _files(ckpt_dir, selector)
            with self._writes(storage_id) as target:
                _copy(ckpt_dir, files, target)
                self._finish(target, storage_id, metadata or {})
            return storage_id
        return self._upload_shards(ckpt_dir, metadata, selector)

    def _upload_shards(self, ckpt_dir: str | os.PathLike[str] | None, metadata: dict[str, Any] | None, selector: Selector | None) -> str:
        if selector is not None and ckpt_dir is None:
            raise RuntimeError("CheckpointContext.upload: a selector needs a ckpt_dir to select from; name the folder")
        self._check_shared("upload")
        storage_id = str(self._dist.broadcast(str(uuid.uuid4())))
        files = [] if ckpt_dir is None else _files(ckpt_dir, selector)
        sums = {name: _sum_of(os.path.join(ckpt_dir, name)) for name in files} if ckpt_dir is not None else {}
        everyone = self._dist.allgather((ckpt_dir is not None, sums, metadata or {}))
        if not any(given for given, _, _ in everyone):
            raise RuntimeError("CheckpointContext.upload: ckpt_dir is None in all processes; at least one must have a folder")
        united = _united([each for _, _, each in everyone])
        _check_metadata(united)
        first: dict[str, tuple[int, str]] = {}
        for rank, (_, theirs, _) in enumerate(everyone):
            for name, digest in theirs.items():
                before = first.setdefault(name, (rank, digest))
                if before[1] != digest:
                    raise RuntimeError(f"CheckpointContext.upload: ranks {before[0]} and {rank} have different contents of {name}; give the files different names")
        target = self._storage / storage_id
        if ckpt_dir is not None:
            _copy(ckpt_dir, [name for name in files if first[name][0] == self._dist.rank], target)
        self._dist.allgather(None)
        if self._dist.rank == 0:
            target.mkdir(parents=True, exist_ok=True)
            self._finish(target, storage_id, united)
        return storage_id

    @contextlib.contextmanager
    def store_path(self, metadata: dict[str, Any] | None = None, *, shard: bool = False) -> Iterator[tuple[pathlib.Path, str]]:
        """Gives a new folder and its id; the checkpoint is there when the block ends. A block that raises leaves no checkpoint.

        shard=False: the chief only. shard=True: all processes together, into the same folder."""
        if not shard:
            self._check_chief("store_path")
            storage_id = str(uuid.uuid4())
            with self._writes(storage_id) as target:
                yield target, storage_id
                _check_metadata(metadata)
                self._finish(target, storage_id, metadata or {})
            return
        self._check_shared("store_path")
        storage_id = str(self._dist.broadcast(str(uuid.uuid4())))
        target = self._storage / storage_id
        target.mkdir(parents=True, exist_ok=True)
        yield target, storage_id
        united = _united(self._dist.allgather(metadata or {}))
        _check_metadata(united)
        if self._dist.rank == 0:
            self._finish(target, storage_id, united)
        self._dist.allgather(None)

    def download(
        self,
        storage_id: str,
        ckpt_dir: str | os.PathLike[str],
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Copies a checkpoint into ckpt_dir, which is made where it does not exist. CheckpointNotFound: no such id."""
        together = DownloadMode(download_mode) is DownloadMode.LocalWorkersShareDownload
        source = self._path_of(storage_id)
        wanted = set(_files(source, selector))
        if together:
            for theirs in self._dist.allgather_local(wanted):
                wanted |= theirs
        if not together or self._dist.local_rank == 0:
            _copy(source, sorted(wanted), pathlib.Path(ckpt_dir))
        self._read(source, together)

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> Iterator[pathlib.Path]:
        """The folder of a checkpoint, to read from; it is the stored one, so that nothing is copied. CheckpointNotFound: no such id."""
        source = self._path_of(storage_id)
        yield source
        self._read(source, DownloadMode(download_mode) is DownloadMode.LocalWorkersShareDownload)

    def _read(self, source: pathlib.Path, together: bool) -> None:
        """All processes of the machine have read it, if they do so together."""
        if together:
            self._dist.allgather_local(None)
            if self._passing and source.parent == self._storage and self._dist.local_rank == 0:
                shutil.rmtree(source, ignore_errors=True)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """What was given with the checkpoint."""
        file = self._path_of(storage_id) / METADATA
        if not file.exists():
            return {}
        metadata = json.loads(file.read_text())
        return metadata if isinstance(metadata, dict) else {}

    def delete(self, storage_id: str) -> None:
        """No effect where there is no such checkpoint."""
        if storage_id and os.path.basename(storage_id) == storage_id and storage_id not in (".", ".."):
            if self._session is not None:
                with contextlib.suppress(exceptions.NotFoundError):  # The files of one that the head does not know go all the same.
                    self._session.call_any("DeleteCheckpoints", {"ids": [storage_id], "request_id": str(uuid.uuid4())})
                    return
            if self._object_store is not None:
                self._object_store.delete(storage_id)
            shutil.rmtree(self._storage / storage_id, ignore_errors=True)
        else:
            raise ValueError(f"CheckpointContext.delete: expected the id of a checkpoint, got {storage_id!r}")

    def _path_of(self, storage_id: str) -> pathlib.Path:
        """Of an id, or of a folder that is named by its path."""
        path = pathlib.Path(storage_id) if os.sep in str(storage_id) else self._storage / storage_id
        if storage_id and not path.is_dir() and os.sep not in str(storage_id) and self._object_store is not None:
            self._fetch(self._object_store, storage_id, path)
        if not storage_id or not path.is_dir():
            raise errors.CheckpointNotFound(f"checkpoint {storage_id!r}: there is no folder {path}; name the id of a checkpoint in this storage, or a folder's path")
        return path

    def _fetch(self, object_store: Storage, storage_id: str, path: pathlib.Path) -> None:
        self._storage.mkdir(parents=True, exist_ok=True)
        with open(self._storage / ".reading", "w") as lock:  # One process of this machine reads it for all.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_dir():
                try:
                    object_store.download(storage_id, path)
                except exceptions.NotFoundError as error:
                    raise errors.CheckpointNotFound(f"checkpoint {storage_id!r}: {error}") from None

    @contextlib.contextmanager
    def _writes(self, storage_id: str) -> Iterator[pathlib.Path]:
        target = self._storage / storage_id
        target.mkdir(parents=True)
        try:
            yield target
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise

    def _finish(self, target: pathlib.Path, storage_id: str, metadata: dict[str, Any]) -> None:
        (target / METADATA).write_text(json.dumps(metadata, indent=2))
        if self._object_store is not None:
            self._object_store.upload(target, storage_id)
        level = logging.INFO if _train.listener is None else logging.DEBUG
        _logger.log(level, "checkpoint saved uuid=%s steps_completed=%s path=%s", storage_id, metadata["steps_completed"], target)
        if self._session is not None:
            checkpoint = {"id": storage_id, "batches": metadata["steps_completed"], "resources": _resources(target), "metadata": json.dumps(metadata)}
            self._session.call("ReportCheckpoint", checkpoint=checkpoint)
        if self._passing:
            shutil.rmtree(target, ignore_errors=True)
        _train.tell("checkpoint", metadata["steps_completed"], {"uuid": storage_id, "path": str(target)})

    def _check_shared(self, method: str) -> None:
        if self._passing and self._dist.cross_size > 1:
            raise RuntimeError(
                f"CheckpointContext.{method}: shard=True on {self._dist.cross_size} nodes needs a folder that all of them see; "
                "set checkpoint_storage to type shared_fs or directory"
            )

    def _check_chief(self, method: str) -> None:
        if self._dist.rank != 0:
            raise RuntimeError(f"CheckpointContext.{method}: with shard=False only rank 0 may call it, this is rank {self._dist.rank}; pass shard=True in all processes")


def _check_metadata(metadata: dict[str, Any] | None) -> None:
    if not isinstance((metadata or {}).get("steps_completed"), int):
        raise ValueError(f"metadata of a checkpoint: expected a 'steps_completed' integer, got {metadata!r}; add the number of batches trained")


def _files(folder: str | os.PathLike[str], selector: Selector | None) -> list[str]:
    base = pathlib.Path(folder)
    if not base.is_dir():
        raise FileNotFoundError(f"ckpt_dir: there is no folder {base}")
    names = sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())
    return [name for name in names if selector is None or selector(name)]


def _resources(folder: pathlib.Path) -> dict[str, int]:
    """Size in bytes by path; folders end with a slash."""
    return {f"{path.relative_to(folder)}/" if path.is_dir() else str(path.relative_to(folder)): 0 if path.is_dir() else path.stat().st_size for path in folder.rglob("*")}


def _copy(source: str | os.PathLike[str], files: list[str], target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in files:
        to = target / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.join(source, name), to)


def _sum_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def _united(parts: list[dict[str, Any]], where: str = "") -> dict[str, Any]:
    """One dictionary of all; nested dictionaries are united. RuntimeError: a key has two values."""
    united: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            if key not in united:
                united[key] = value
            elif isinstance(united[key], dict) and isinstance(value, dict):
                united[key] = _united([united[key], value], f"{where}{key}/")
            elif united[key] != value:
                raise RuntimeError(f"metadata of a checkpoint: processes disagree on {where}{key}: {united[key]!r} and {value!r}; use a key for each rank")
    return united


DummyCheckpointContext = CheckpointContext
