#!/usr/bin/env bash
# Installs Python's gRPC client from PyPI as scripts/grpcio.txt pins it, 12 MB, for the test that asks the head from another language.
# Nothing else needs it: where this fails, that test is skipped, and it says so.
#
#   VOLADOR_GRPCIO=OFF   install nothing
#   setup_grpcio.sh --folder   print where it is, and install nothing; exit code 1 where it is not there
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
folder=$cache/grpcio-$(sed -n 's/^grpcio==\([^ ]*\).*/\1/p' "$here/grpcio.txt")

say() { printf 'setup: %s\n' "$*" >&2; }
# The marker is written last, and holds what was installed.
there() { cmp -s "$here/grpcio.txt" "$folder/installed"; }

if [ "${1:-}" = --folder ]; then
  there && printf '%s\n' "$folder"
  exit
fi
if [ "${VOLADOR_GRPCIO:-}" = OFF ] || there; then exit; fi
say "installing Python's gRPC client from PyPI into $folder"
mkdir -p "$cache"
work=$(mktemp -d "$cache/grpcio.XXXXXX")
trap 'rm -rf "$work"' EXIT
if python3 -m venv "$work/venv" &&
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --require-hashes --only-binary=:all: \
    --target="$work/site" --requirement="$here/grpcio.txt" </dev/null >&2; then
  cp "$here/grpcio.txt" "$work/site/installed"
  rm -rf "$folder"
  mv -T "$work/site" "$folder"
else
  say "the test of gRPC as a foreign client will be skipped; run scripts/setup_grpcio.sh again"
fi
