"""What a trial's code imports, and whether it would notice that modules were imported before it began. Nothing is executed."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable

FILES_MAX, BYTES_MAX = 1000, 8 << 20
_KEPT_MAX = 10 * FILES_MAX

# Modules that take long to import and whose import has no effect but the modules themselves. Those of the standard library are imported too.
LIBRARIES = frozenset(("PIL", "numpy", "pandas", "scipy", "sklearn", "torch", "torchvision", "tqdm", "yaml"))
_WITH_EFFECTS = frozenset(("antigravity", "idlelib", "lib2to3", "readline", "rlcompleter", "test", "this", "tkinter", "turtle", "turtledemo"))

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([A-Za-z_][\w.]*)[ \t]+import\b|import[ \t]+([A-Za-z_][^#\n;]*))", re.MULTILINE)
# Variables that libraries read when they are imported, and what changes how later imports go.
_BEFORE_IMPORT = re.compile(
    rb"\b(?:OMP|MKL|OPENBLAS|BLIS|GOTO|GOMP|KMP|NUMEXPR|VECLIB|CUDA|CUBLAS|CUDNN|NCCL|NPY|TORCH|PYTORCH|ATEN|TBB|MALLOC|LD)_[A-Z]"
    rb"|\bmeta_path\b|\bpath_hooks\b|\bsys\.modules\b|\bimportlib\.reload\b|\bsettrace\b|\bsetprofile\b|\baddaudithook\b|\bset_start_method\b"
)


class Unfit(Exception):
    """The code would notice; why."""


def files_of(folder: str) -> list[str]:
    found = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        found += [os.path.join(root, name) for name in sorted(names) if name.endswith(".py")]
        if len(found) > FILES_MAX:
            raise Unfit(f"{folder} has more than {FILES_MAX} files of Python")
    return found


def imported(text: bytes) -> set[str]:
    """Names of modules, with dots, in the order that a reader of the text sees."""
    names: set[str] = set()
    for module, listed in _IMPORT.findall(text):
        for name in [module] if module else listed.split(b","):
            word = name.split()
            if word and re.fullmatch(rb"[A-Za-z_][\w.]*", word[0]):
                names.add(word[0].decode())
    return names


_kept: dict[bytes, tuple[str, frozenset[str]]] = {}


def _searched(text: bytes) -> tuple[str, frozenset[str]]:
    """What may have to come before imports (empty: nothing), and what is imported. The trials of an experiment have the same files."""
    key = hashlib.sha256(text).digest()
    if key not in _kept:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        match = _BEFORE_IMPORT.search(text)
        _kept[key] = (match[0].decode() if match else "", frozenset(imported(text)))
    return _kept[key]


def wanted(names: Iterable[str], own: set[str]) -> list[str]:
    """Those that may be imported before the code runs. own: what the code brings itself."""
    found = []
    for name in sorted(names):
        root = name.partition(".")[0]
        if root not in own and (root in LIBRARIES or (root in sys.stdlib_module_names and root not in _WITH_EFFECTS and not root.startswith("_"))):
            found.append(name)
    return found


def own_names(folder: str) -> set[str]:
    """Modules and packages in the folder, which come first in sys.path."""
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            stem, dot, suffix = entry.name.partition(".")
            if (dot and suffix.rpartition(".")[2] in ("py", "so", "pyc")) or (not dot and os.path.exists(os.path.join(entry.path, "__init__.py"))):
                names.add(stem)
    return names


def look(folder: str, loaded: set[str]) -> list[str]:
    """The modules to import before programs of this folder run. loaded: names of modules that are imported. Raises Unfit."""
    own = own_names(folder)
    if hidden := own & loaded:
        raise Unfit(f"{folder} has its own {', '.join(sorted(hidden))}")
    names: set[str] = set()
    left = BYTES_MAX
    for file in files_of(folder):
        with open(file, "rb") as source:
            text = source.read(left + 1)
        left -= len(text)
        if left < 0:
            raise Unfit(f"{folder} has more than {BYTES_MAX >> 20} MiB of Python")
        early, found = _searched(text)
        if early:
            raise Unfit(f"{file} has {early}, which may have to come before imports")
        names |= found
    return wanted(names, own)
