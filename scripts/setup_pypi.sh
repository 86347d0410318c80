#!/usr/bin/env bash
# setup_pypi.sh NAME SWITCH WHAT SKIPPED [--folder]: installs a Python package for tests from PyPI, as scripts/NAME.txt pins it with all that
# it needs, into a folder of its own, named for its version or, where no package has this name, for the pins. Where this fails, the tests
# that need it are skipped, and say so.
#
#   SWITCH=OFF in the environment   install nothing
#   --folder                        print where it is, and install nothing; the exit code is not 0 where it is not there
set -euo pipefail
name=$1 switch=$2 what=$3 skipped=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pins=$here/$name.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
version=$(sed -n "s/^$name==\([^ ]*\).*/\1/p" "$pins")
folder=$cache/$name-${version:-$(sha256sum <"$pins" | cut -c1-8)}

say() { printf 'setup: %s\n' "$*" >&2; }
# The marker is written last, and holds what was installed.
there() { cmp -s "$pins" "$folder/installed"; }

if [ "${5:-}" = --folder ]; then
  there && printf '%s\n' "$folder"
  exit
fi
if [ "${!switch:-}" = OFF ] || there; then exit; fi
say "installing $what from PyPI into $folder"
mkdir -p "$cache"
work=$(mktemp -d "$cache/$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
if python3 -m venv "$work/venv" &&
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --require-hashes --only-binary=:all: \
    --target="$work/site" --requirement="$pins" </dev/null >&2; then
  cp "$pins" "$work/site/installed"
  rm -rf "$folder"
  mv -T "$work/site" "$folder"
else
  say "$skipped will be skipped; run scripts/setup_$name.sh again"
fi
