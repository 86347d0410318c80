"""Lets `import ray` find the names of Volador's façade, in this process and in its hosts. Only where a user asks for it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PACKAGES = ("ray",)


class _Loader(importlib.abc.Loader):
    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # It was executed under its own name.


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in PACKAGES:
            return None
        name = f"{__package__}.{fullname}"
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r} in volador.compat; it has the names that docs/guides/python.md lists", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _Loader(name), is_package=found.submodule_search_locations is not None)


def install() -> None:
    """Repeated: no effect. Modules that were imported before keep their names."""
    if not is_installed():
        sys.meta_path.insert(0, _Finder())


def is_installed() -> bool:
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)
