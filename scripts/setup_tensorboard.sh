#!/usr/bin/env bash
# Installs TensorBoard from PyPI as scripts/tensorboard.txt pins it, 25 MB, for the test that reads event files back with its own reader.
# Nothing else needs it. VOLADOR_TENSORBOARD=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" tensorboard VOLADOR_TENSORBOARD "TensorBoard" "the test of event files with TensorBoard's own reader" "$@"
