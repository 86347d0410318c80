#!/usr/bin/env bash
# Installs pyright from PyPI as scripts/basedpyright.txt pins it, 14 MB to download, for the test of the Python package's types. Nothing else needs it.
# VOLADOR_PYRIGHT=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" basedpyright VOLADOR_PYRIGHT "pyright" "the test of types by pyright" "$@"
