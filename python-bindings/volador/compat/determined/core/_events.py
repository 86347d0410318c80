"""Event files of TensorBoard in an object store, so that they can be seen while the trial runs."""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING

from volador import exceptions

if TYPE_CHECKING:
    from volador.storage import Storage

_logger = logging.getLogger("determined.core")

EVERY_S = 60.0


class EventFiles:
    """Copies a folder of event files to a key of an object store. What earlier runs of the trial have stored there is kept."""

    def __init__(self, store: Storage, key: str, folder: pathlib.Path) -> None:
        self._store = store
        self._key = key
        self._folder = folder
        self._lock = threading.Lock()
        self._stored: dict[str, tuple[int, int]] | None = None  # Size and time of each file at the last upload.
        self._restored = False
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, every_s: float | None = None) -> None:
        """Uploads what is new from now on, every `every_s` seconds, in a thread that the end of the process does not wait for."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(EVERY_S if every_s is None else every_s,), name="event files", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread; a last upload() is the caller's."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        self._ends.clear()

    def upload(self) -> None:
        """Stores the files if any has changed since the last upload. A failure is logged: event files are not worth a trial."""
        try:
            with self._lock:
                self._upload()
        except (exceptions.VoladorError, OSError) as error:
            _logger.warning("event files of TensorBoard are not stored: %s", error)

    def _run(self, every_s: float) -> None:
        while not self._ends.wait(every_s):
            self.upload()

    def _seen(self) -> dict[str, tuple[int, int]]:
        files = {}
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                about = path.stat()
                files[str(path.relative_to(self._folder))] = (about.st_size, about.st_mtime_ns)
        return files

    def _upload(self) -> None:
        if not self._seen():
            return
        if not self._restored:
            self._restore()
            self._restored = True
        seen = self._seen()
        if seen == self._stored:
            return
        # From a copy: the program writes on meanwhile, and a folder that changes is not stored.
        with tempfile.TemporaryDirectory(prefix="volador-events-") as scratch:
            copy = pathlib.Path(scratch) / "events"
            for name in seen:
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._folder / name, copy / name)
            self._store.upload(copy, self._key)
        self._stored = seen

    def _restore(self) -> None:
        """Files of earlier runs, which ran on other nodes: an upload replaces what is stored."""
        if not self._store.exists(self._key):
            return
        with tempfile.TemporaryDirectory(prefix="volador-events-") as scratch:
            earlier = os.path.join(scratch, "events")
            for file in self._store.download(self._key, earlier):
                target = self._folder / file.path
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(os.path.join(earlier, file.path), target)
