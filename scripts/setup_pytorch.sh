#!/usr/bin/env bash
# Makes the PyTorch that scripts/setup.sh installs one that Python can import on a machine without a GPU, for the tests of the Python package:
# what it needs from PyPI as scripts/pytorch.txt pins it (10 MB), and in stubs/ empty libraries in place of 4 GB of CUDA's.
# Prints with --folder the folder to put into PYTHONPATH; the folder of PyTorch comes after it, and its stubs/ goes into LD_LIBRARY_PATH.
# VOLADOR_PYTHON=OFF and --folder: as scripts/setup_pypi.sh says.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/setup_pypi.sh" pytorch VOLADOR_PYTHON "what Python needs to import PyTorch" "the tests of volador.train" "$@"
if [ "${1:-}" = --folder ] || ! folder=$("$here/setup_pypi.sh" pytorch VOLADOR_PYTHON "" "" --folder); then exit; fi
torch=${XDG_CACHE_HOME:-$HOME/.cache}/volador/torch-$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$here/libtorch.txt")
if [ -e "$torch/torch/__init__.py" ] && [ ! -d "$folder/stubs" ]; then
  work=$(mktemp -d "$folder/stubs.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 "$here/torch_stubs.py" "$torch" "$work"
  mv -T "$work" "$folder/stubs"
fi
