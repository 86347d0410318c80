#!/usr/bin/env bash
# docs.sh [--serve]: builds the documentation as a site into build/site. Fails if a link or heading is missing.
#
#   --serve   serves it on http://127.0.0.1:8000 and builds it again after each change
#
# Installs MkDocs Material from PyPI, as docs/requirements.txt pins it, into the user's cache (160 MB); after that it needs no network.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
pins=$root/docs/requirements.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
folder=$cache/mkdocs-material-$(sed -n 's/^mkdocs-material==\([^ ]*\).*/\1/p' "$pins")

say() { printf 'docs: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

serve=
for argument in "$@"; do
  case $argument in
    --serve) serve=yes ;;
    *) fail "unknown argument $argument; usage: docs.sh [--serve]" ;;
  esac
done

# The marker is written last, and holds what was installed.
if ! cmp -s "$pins" "$folder/installed"; then
  say "installing MkDocs Material from PyPI into $folder"
  mkdir -p "$cache"
  exec 9>"$folder.lock"
  flock 9
  if ! cmp -s "$pins" "$folder/installed"; then
    rm -rf "$folder"
    python3 -m venv "$folder" || fail "python3 -m venv failed; on Debian: apt-get install python3-venv"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --require-hashes --only-binary=:all: \
      --requirement="$pins" </dev/null >&2 || fail "pip could not install docs/requirements.txt"
    cp "$pins" "$folder/installed"
  fi
  exec 9>&-
fi

export NO_MKDOCS_2_WARNING=1
cd "$root"
if [ -n "$serve" ]; then exec "$folder/bin/mkdocs" serve --strict --dev-addr=127.0.0.1:8000; fi
exec "$folder/bin/mkdocs" build --strict
