#!/usr/bin/env bash
# Installs oidc-provider-mock, a provider of OpenID Connect, from PyPI as scripts/oidc.txt pins it with all that it needs, 9 MB, for the test
# of signing in by a provider that others wrote. Nothing else needs it. VOLADOR_OIDC_MOCK=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" oidc VOLADOR_OIDC_MOCK oidc-provider-mock "the test of signing in by another provider" "$@"
