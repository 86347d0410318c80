"""Process of a Python program that the runtime starts: the template of its hosts, a host, or a private cluster."""

import os
import sys


def main() -> None:
    # This file is run by its path: its folder is no place for imports.
    path = os.environ.pop("VOLADOR_PYTHON_PATH", "")
    if path:
        sys.path[:] = path.split(os.pathsep)
    else:
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    role = os.environ.get("VOLADOR_ROLE", "")
    if not role:
        sys.exit("error: volador.host is started by the runtime; start your own script, which calls volador.init()")

    from volador import _core, _host
    from volador.compat import _alias

    if os.environ.pop("VOLADOR_PYTHON_COMPAT", ""):
        _alias.install()

    if role == "template":
        _host.preload(os.environ.pop("VOLADOR_PYTHON_PRELOAD", ""))
    _core.start_role()


if __name__ == "__main__":
    main()
