"""Determined AI's names on Volador: `import volador.compat.determined as det`, or `import determined` through the alias.

Trial classes and Core API programs run unchanged, in one process or in the processes of torchrun. Checkpoints have Determined's layout.
determined.pytorch needs torch, determined.keras Keras; they are imported at their first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from volador.compat.determined import core, errors, util
from volador.compat.determined._config import ExperimentConfig
from volador.compat.determined._import import import_from_path
from volador.compat.determined._info import ClusterInfo, TrialInfo, get_cluster_info
from volador.compat.determined._trial import Trial
from volador.compat.determined.errors import InvalidHP

if TYPE_CHECKING:
    from volador.compat.determined import keras, pytorch

__version__ = "0.24.0"  # Whose names these are.

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"


def __getattr__(name: str) -> Any:
    if name in ("keras", "pytorch"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'determined' has no attribute {name!r}; docs/guides/python.md lists the names of the façade")


__all__ = [
    "LOG_FORMAT",
    "ClusterInfo",
    "ExperimentConfig",
    "InvalidHP",
    "Trial",
    "TrialInfo",
    "core",
    "errors",
    "get_cluster_info",
    "import_from_path",
    "keras",
    "pytorch",
    "util",
]
