#!/usr/bin/env bash
# Installs schemathesis from PyPI as scripts/schemathesis.txt pins it, 43 MB, for the test that makes HTTP requests up from openapi.json.
# Nothing else needs it: where this fails, that test is skipped, and it says so.
#
#   VOLADOR_SCHEMATHESIS=OFF   install nothing
#   setup_schemathesis.sh --folder   print where it is, and install nothing; exit code 1 where it is not there
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
folder=$cache/schemathesis-$(sed -n 's/^schemathesis==\([^ ]*\).*/\1/p' "$here/schemathesis.txt")

say() { printf 'setup: %s\n' "$*" >&2; }
# The marker is written last, and holds what was installed.
there() { cmp -s "$here/schemathesis.txt" "$folder/installed"; }

if [ "${1:-}" = --folder ]; then
  there && printf '%s\n' "$folder"
  exit
fi
if [ "${VOLADOR_SCHEMATHESIS:-}" = OFF ] || there; then exit; fi
say "installing schemathesis from PyPI into $folder"
mkdir -p "$cache"
work=$(mktemp -d "$cache/schemathesis.XXXXXX")
trap 'rm -rf "$work"' EXIT
if python3 -m venv "$work/venv" &&
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --require-hashes --only-binary=:all: \
    --target="$work/site" --requirement="$here/schemathesis.txt" </dev/null >&2; then
  cp "$here/schemathesis.txt" "$work/site/installed"
  rm -rf "$folder"
  mv -T "$work/site" "$folder"
else
  say "the test with made up requests will be skipped; run scripts/setup_schemathesis.sh again"
fi
