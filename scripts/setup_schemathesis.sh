#!/usr/bin/env bash
# Installs schemathesis from PyPI as scripts/schemathesis.txt pins it, 43 MB, for the test that makes HTTP requests up from openapi.json.
# Nothing else needs it. VOLADOR_SCHEMATHESIS=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" schemathesis VOLADOR_SCHEMATHESIS schemathesis "the test with made up requests" "$@"
