"""The program's own modules and files, for nodes on machines that do not have them.

The driver packs the folders of sys.path that are no installation, once, when it spawns or submits something on a cluster
of several nodes. An actor of the driver keeps the archive; a host on another machine gets it from there, unless its node
has it already, and puts its folders in the places of the driver's in sys.path."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fnmatch
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
import warnings
from typing import Any

from volador import _core, _values
from volador.exceptions import ActorDiedError, NotFoundError, UnavailableError, UnknownOutcomeError, VoladorError

BYTES_MAX = 95 << 20  # Of all files together.
PART_BYTES = 64 << 10  # Small enough to travel within a call.
_ENTRIES_MAX = 50_000  # Files of one folder that are looked at.
_RETRY_SECONDS = 0.2
_FETCH_SECONDS = 120.0
_NAMESPACE = "volador-code"
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages"}
_IGNORE_FILE = ".voladorignore"


@dataclasses.dataclass(frozen=True)
class Archive:
    """Where a host finds the program's files."""

    sha256: str
    actor: str  # Name of the actor that has them.
    machine: str  # That of the driver: its hosts read the files in their places.
    roots: tuple[str, ...]  # Folders of the driver, in the order of the archive's folders 0, 1, …

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled before what may need its modules.
        return _installed, (self.sha256, self.actor, self.machine, self.roots)


class Code:
    """Keeps an archive, which comes in parts: a driver without a worker on its machine cannot send large objects."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._is_complete = asyncio.Event()

    async def append(self, part: bytes) -> None:
        self._parts.append(part)

    async def complete(self) -> None:
        self._is_complete.set()

    async def read(self) -> bytes:
        await self._is_complete.wait()
        return b"".join(self._parts)

    async def stay(self) -> None:
        """Ends with the actor."""
        await asyncio.Event().wait()


class Keeper:
    """The driver's side of the actor with the archive: makes it anew where it was lost, with its node for instance."""

    def __init__(self, data: bytes) -> None:
        self.name = f"code-{uuid.uuid4().hex}"
        self._data = data
        self._ended = threading.Event()
        self._actor: Any = None
        self._place()

    def end(self) -> None:
        self._ended.set()

    def _place(self) -> None:
        from volador import _actor, _options

        options = _options.ActorOptions(name=self.name, namespace=_NAMESPACE, num_cpus=0, isolation="shared")
        self._actor = _actor.ActorClass(Code, options).remote()
        for sent in [self._actor.append.remote(self._data[at : at + PART_BYTES]) for at in range(0, len(self._data), PART_BYTES)]:
            sent.result()
        self._actor.complete.remote().result()
        self._actor.stay.remote().add_done_callback(lambda _: self._on_lost())

    def _on_lost(self) -> None:
        if not self._ended.is_set():
            threading.Thread(target=self._place_again, name="volador-code", daemon=True).start()

    def _place_again(self) -> None:
        while not self._ended.wait(_RETRY_SECONDS):
            self._actor = None  # Ends one that did not get all parts, which has the name.
            with contextlib.suppress(VoladorError):  # The head or the new node may be away as well.
                return self._place()


_lock = threading.RLock()
_archive: Archive | None = None
_keeper: Keeper | None = None
_is_packing = False


class Portable:
    """A class, a function or the like, pickled once with what another machine needs to load it."""

    def __init__(self, what: Any) -> None:
        self._what = what
        self._packed: _values.Packed | None = None
        self._archive: Archive | None = None  # In the pickle.

    def packed(self) -> _values.Packed:
        """The pickle; made anew where an archive has come to be needed."""
        archive = _needed_archive()
        if self._packed is None or archive is not self._archive:
            self._packed = _values.pack((archive, self._what))
            self._archive = archive
        return self._packed


def unpack(packed: _values.Packed) -> Any:
    """The inverse of Portable.packed(). The message of a ModuleNotFoundError says what to do."""
    try:
        return _values.unpack(packed)[1]
    except ModuleNotFoundError as error:
        raise _explained(error) from error


def forget() -> None:
    """At the end of a connection, with which the actor ends."""
    global _archive, _keeper
    if _keeper is not None:
        _keeper.end()
    _archive = _keeper = None


def _needed_archive() -> Archive | None:
    global _archive, _keeper, _is_packing
    with _lock:
        if _archive is not None or _is_packing or _core.is_inside_actor() or _core.node_count() < 2:
            return _archive
        _is_packing = True
        try:
            roots = own_folders()
            data = archive_of(roots)
            _keeper = Keeper(data)
            _archive = Archive(hashlib.sha256(data).hexdigest(), _keeper.name, _core.machine_id(), tuple(roots))
        finally:
            _is_packing = False
        return _archive


# ---- The driver.


def own_folders() -> list[str]:
    """Folders of sys.path with modules of the user: no installation of Python or of packages."""
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    found: list[str] = []
    for entry in sys.path:
        folder = os.path.abspath(entry or os.curdir)
        real = os.path.realpath(folder)
        if not os.path.isdir(real) or folder in found or real == package or real == os.path.sep:
            continue
        if any(part in ("site-packages", "dist-packages") for part in real.split(os.sep)):
            continue
        standard = any(real.startswith(os.path.join(prefix, "lib", "python")) for prefix in prefixes)
        if standard or any(name.endswith(".dist-info") for name in os.listdir(real)):
            continue
        found.append(folder)
    return found


def archive_of(roots: list[str]) -> bytes:
    """A ZIP file of all roots; of a root that is too large only its modules, with a warning."""
    import zipfile

    left = BYTES_MAX
    with io.BytesIO() as memory:
        with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for index, root in enumerate(roots):
                files = files_of(root)
                sizes = {name: os.path.getsize(os.path.join(root, name)) for name in files}
                if len(files) > _ENTRIES_MAX or sum(sizes.values()) > left:
                    largest = sorted(sizes, key=lambda name: -sizes[name])[:3]
                    warnings.warn(
                        f"{root} has {'more than ' if len(files) > _ENTRIES_MAX else ''}{len(files)} files of {sum(sizes.values()) >> 20} MiB; for nodes on other machines "
                        f"at most {BYTES_MAX >> 20} MiB travel with a program, so they get its modules only. Largest: "
                        + ", ".join(f"{name} ({sizes[name] >> 20} MiB)" for name in largest)
                        + f". List what is not needed in {_IGNORE_FILE}, or move it elsewhere",
                        stacklevel=6,
                    )
                    files = modules_of(root)
                for name in files:
                    content = _content(os.path.join(root, name))
                    left -= len(content)
                    if left < 0:
                        raise ValueError(f"the modules below {root} exceed the {BYTES_MAX >> 20} MiB that travel with a program; list what is not needed in {_IGNORE_FILE}")
                    # A fixed time: equal contents are equal archives.
                    archive.writestr(zipfile.ZipInfo(f"{index}/{name}"), content, zipfile.ZIP_DEFLATED, 1)
        return memory.getvalue()


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def files_of(root: str) -> list[str]:
    """Relative paths of the files below a folder that travel: those that git does not ignore, or all without hidden
    folders and environments; never what .voladorignore names. Stops after _ENTRIES_MAX + 1."""
    found = _files_of_git(root)
    if found is None:
        found = []
        for place, folders, names in os.walk(root):
            folders[:] = sorted(
                name for name in folders if name not in _SKIPPED and not name.startswith(".") and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
            )
            found += [os.path.relpath(os.path.join(place, name), root) for name in sorted(names)]
            if len(found) > _ENTRIES_MAX:
                break
    ignored = _ignored(root)
    kept = (name for name in found if not any(_matches(name, pattern) for pattern in ignored))
    return [name for name in kept if not name.endswith(".pyc") and os.path.isfile(os.path.join(root, name))][: _ENTRIES_MAX + 1]


def _files_of_git(root: str) -> list[str] | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(["git", "-C", root, "ls-files", "-coz", "--exclude-standard"], capture_output=True, timeout=10)
        if done.returncode == 0:
            return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return None


def modules_of(root: str) -> list[str]:
    """Modules at the top of a folder, and those of its packages."""
    found: list[str] = []
    for entry in sorted(os.listdir(root)):
        path = os.path.join(root, entry)
        if entry.endswith(".py") and os.path.isfile(path):
            found.append(entry)
        elif os.path.isfile(os.path.join(path, "__init__.py")):
            for place, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if name not in _SKIPPED)
                found += [os.path.relpath(os.path.join(place, name), root) for name in sorted(names) if name.endswith(".py")]
    ignored = _ignored(root)
    return [name for name in found if not any(_matches(name, pattern) for pattern in ignored)]


def _ignored(root: str) -> list[str]:
    with contextlib.suppress(OSError), open(os.path.join(root, _IGNORE_FILE)) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return []


def _matches(name: str, pattern: str) -> bool:
    """As in .gitignore, without negation: a pattern with a slash is one of the whole path, others of any part of it."""
    parts = name.split(os.sep)
    pattern = pattern.rstrip("/")
    if "/" in pattern:
        pattern = pattern.lstrip("/")
        return any(fnmatch.fnmatchcase(os.sep.join(parts[:count]), pattern) for count in range(1, len(parts) + 1))
    return any(fnmatch.fnmatchcase(part, pattern) for part in parts)


# ---- Hosts.


def _installed(sha256: str, actor: str, machine: str, roots: tuple[str, ...]) -> Archive:
    global _archive
    archive = Archive(sha256, actor, machine, roots)
    with _lock:
        if _archive is None and _core.is_inside_actor():
            if machine != _core.machine_id():
                _install(archive)
            _archive = archive  # What this host spawns needs it too.
    return archive


def _fetched(archive: Archive) -> bytes:
    """From the actor that has it, which the driver makes anew where it was lost."""
    from volador import _actor

    end = time.monotonic() + _FETCH_SECONDS
    while True:
        try:
            return bytes(_actor.get_actor(archive.actor, _NAMESPACE).read.remote().result(timeout=max(1.0, end - time.monotonic())))
        except (NotFoundError, ActorDiedError, UnavailableError, UnknownOutcomeError):
            if time.monotonic() > end:
                raise
            time.sleep(_RETRY_SECONDS)


def _install(archive: Archive) -> None:
    scratch = str(_core.context()["scratch"])
    folder = os.path.join(os.path.dirname(scratch), f"code-{archive.sha256[:32]}")
    if not os.path.isdir(folder):
        import zipfile

        data = _fetched(archive)
        if hashlib.sha256(data).hexdigest() != archive.sha256:
            raise RuntimeError(f"the files of the program arrived damaged on node {_core.context()['node']}; start the program again")
        unpacked = f"{folder}.{os.getpid()}"
        with zipfile.ZipFile(io.BytesIO(data)) as files:
            files.extractall(unpacked)
        try:
            os.rename(unpacked, folder)
        except OSError:  # Another host was faster.
            shutil.rmtree(unpacked, ignore_errors=True)
    for index, root in enumerate(archive.roots):
        own = os.path.join(folder, str(index))
        sys.path[:] = [own if entry == root else entry for entry in sys.path]
        if own not in sys.path:
            sys.path.insert(index, own)
    if os.path.realpath(os.getcwd()) == os.path.realpath(scratch) and os.path.isdir(first := os.path.join(folder, "0")):
        for name in os.listdir(first):  # Files are opened by relative paths.
            with contextlib.suppress(FileExistsError):
                os.symlink(os.path.join(first, name), name)


def _explained(error: ModuleNotFoundError) -> ModuleNotFoundError:
    if not _core.is_inside_actor():
        return error
    node = _core.context()["node"]
    return ModuleNotFoundError(
        f"{error.msg} on node {node}, with {sys.executable}; install it there for this Python, or keep it in the folder of the program, which travels with it",
        name=error.name,
        path=error.path,
    )
