"""`determined` for the programs of a cluster's trials: the names of Volador's façade. The folder above is in their PYTHONPATH."""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("volador") is None:  # The program's interpreter is not the one that has the package installed.
    sys.path.append(str(Path(__file__).parents[4]))

from volador.compat import _alias

_alias.install(("determined",))  # A real ray or optuna stays what it is.
sys.modules["determined"] = _alias.facade("determined")
