#!/usr/bin/env bash
# Installs Python's gRPC client from PyPI as scripts/grpcio.txt pins it, 12 MB, for the test that asks the head from another language.
# Nothing else needs it. VOLADOR_GRPCIO=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" grpcio VOLADOR_GRPCIO "Python's gRPC client" "the test of gRPC as a foreign client" "$@"
