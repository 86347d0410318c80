#!/usr/bin/env bash
# Installs aiosmtpd, a mail server, from PyPI as scripts/aiosmtpd.txt pins it, 1 MB, for the test of reports by mail.
# Nothing else needs it. VOLADOR_AIOSMTPD=OFF and --folder: as scripts/setup_pypi.sh says.
exec "$(dirname "${BASH_SOURCE[0]}")/setup_pypi.sh" aiosmtpd VOLADOR_AIOSMTPD aiosmtpd "the test of reports by mail" "$@"
