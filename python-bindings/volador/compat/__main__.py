"""python -m volador.compat SCRIPT [ARGUMENT…]: runs a script that imports ray or optuna, unchanged, on Volador."""

import os
import runpy
import sys

from volador.compat import _alias


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m volador.compat SCRIPT [ARGUMENT…]   runs a script that imports ray or optuna, on Volador")
    script = sys.argv[1]
    if not os.path.exists(script):
        sys.exit(f"error: there is no script {script}")
    _alias.install()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
