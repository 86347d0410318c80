"""Lets `import ray`, `import optuna` and `import determined` find the names of Volador's façades, in this process and in its
hosts. Only where a user asks for it.

A package `determined` that is installed, or that stands beside the program, is imported instead of the façade."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PACKAGES = ("ray", "optuna", "determined")
_YIELDING = ("determined",)


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

    def get_code(self, fullname: str) -> Any:
        """For `python3 -m`."""
        spec = importlib.util.find_spec(self._target)
        assert spec is not None and isinstance(spec.loader, importlib.abc.InspectLoader)
        return spec.loader.get_code(self._target)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        root = fullname.partition(".")[0]
        if root not in self.packages or (root in _YIELDING and _has_another(root)):
            return None
        name = f"{__package__}.{fullname}"
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise ModuleNotFoundError(f"No module named {fullname!r} in volador.compat; it has the names that docs/guides/python.md lists", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _Loader(name), is_package=found.submodule_search_locations is not None)


def facade(root: str) -> ModuleType:
    """The façade's package of that name."""
    return importlib.import_module(f"{__package__}.{root}")


def _has_another(root: str) -> bool:
    """Whether a package of that name is imported, or can be, that is not the façade. Folders without modules do not count."""
    if root in sys.modules:
        return sys.modules[root].__name__ == root
    found = importlib.machinery.PathFinder.find_spec(root)
    return found is not None and found.loader is not None and found.origin is not None


def install(packages: tuple[str, ...] = PACKAGES) -> None:
    """Repeated: no effect. Modules that were imported before keep their names."""
    missing = tuple(package for package in packages if not is_installed(package))
    if missing:
        sys.meta_path.insert(0, _Finder(missing))


def is_installed(package: str = PACKAGES[0]) -> bool:
    return any(isinstance(finder, _Finder) and package in finder.packages for finder in sys.meta_path)
