"""python -m volador.determined model_def:Class config.yaml: trains a Determined trial; see volador.compat.determined."""

import sys

try:
    from volador.compat.determined._launch import main
except ModuleNotFoundError as _error:
    if _error.name not in ("numpy", "torch", "yaml"):
        raise
    sys.exit(f"error: volador.determined needs {_error.name}, which is not installed; install what it needs with: pip install 'volador[determined]'")

if __name__ == "__main__":
    sys.exit(main())
