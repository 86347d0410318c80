#!/usr/bin/env bash
# Installs Keras 3 from PyPI as scripts/keras.txt pins it, 20 MB to download, for the tests of trials in Keras; they run on the PyTorch of setup_pytorch.sh.
# Nothing else needs it. VOLADOR_KERAS=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" keras VOLADOR_KERAS "Keras" "the tests of trials in Keras" "$@"
