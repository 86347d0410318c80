#!/usr/bin/env bash
# Installs what the Python package is built and tested with from PyPI as scripts/nanobind.txt pins it: nanobind, cloudpickle, numpy, joblib,
# pytest and mypy, 110 MB. VOLADOR_PYTHON=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" nanobind VOLADOR_PYTHON "what the Python package is built and tested with" "the Python package and its tests" "$@"
