#!/usr/bin/env bash
# Installs a Jupyter kernel and nbclient, which runs a notebook in it, from PyPI as scripts/nbclient.txt pins them, 15 MB, for the tests of notebooks.
# Nothing else needs them. VOLADOR_NBCLIENT=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" nbclient VOLADOR_NBCLIENT "nbclient" "the tests of notebooks" "$@"
