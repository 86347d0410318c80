"""Import of a second copy of a program, such as the one in a checkpoint's code/ folder."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_active = False


def _below(folder: str) -> list[str]:
    """Names of the modules that were imported from a folder."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and os.path.realpath(file).startswith(os.path.realpath(folder) + os.sep):
            found.append(name)
    return found


@contextlib.contextmanager
def import_from_path(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within it, `import x` finds modules of path first, even where an x of the working directory was imported before.

    Afterwards the names in sys.modules are as they were. RuntimeError: nested; one thread at a time."""
    global _active
    if _active:
        raise RuntimeError("import_from_path: cannot be nested or entered by two threads; leave the first one before")
    folder = os.path.abspath(os.fspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"import_from_path: there is no folder {folder}")
    kept_path, kept_bytecode = list(sys.path), sys.dont_write_bytecode
    names = {entry.partition(".")[0] for entry in os.listdir(folder)}
    hidden = {name: sys.modules[name] for name in list(sys.modules) if name.partition(".")[0] in names and name in sys.modules}
    _active, sys.dont_write_bytecode = True, True
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in _below(folder):
            del sys.modules[name]
        sys.modules.update(hidden)
        sys.path[:] = kept_path
        _active, sys.dont_write_bytecode = False, kept_bytecode
