"""python -m volador.determined model_def:Class config.yaml: trains a Determined trial here; see volador.compat.determined."""

import sys

from volador.compat.determined._launch import main

if __name__ == "__main__":
    sys.exit(main())
