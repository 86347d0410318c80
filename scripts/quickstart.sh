#!/usr/bin/env bash
# Volador in one command: installs what is missing, builds, starts a head and two workers on this machine, tunes a small network on
# handwritten digits across them, shows the best of it, and stops everything again.
#
# The cluster is private to this run: its own folder, a free port, loopback only. A cluster that runs already is not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh

log=$(mktemp)
quietly() {
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    printf 'quickstart: %s failed\n' "$1 ${2:-}" >&2
    exit 1
  fi
}

VOLADOR_HOME=$(mktemp -d /tmp/volador-quickstart.XXXXXX)
export VOLADOR_HOME
unset VOLADOR_ADDRESS VOLADOR_TOKEN VOLADOR_CLUSTER VOLADOR_NAME
stopped=
stop_all() {
  [ -z "$stopped" ] || return 0
  stopped=yes
  [ ! -x build/bin/volador ] || build/bin/volador stop --all >"$log" 2>&1 || cat "$log" >&2
  rm -rf "$VOLADOR_HOME" "$log"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ -e build/build.ninja ] || { echo "configuring…"; quietly cmake --preset release -DVOLADOR_UNITY=ON; }
# Said only where it takes its time.
(sleep 2; echo "building the command line and the example (the first time takes minutes)…") &
note=$!
quietly ninja -C build volador tune_digits
kill "$note" 2>/dev/null || true
wait "$note" 2>/dev/null || true

# Half of the CPUs for each of the two workers.
cpus=$(($(nproc) / 2))
[ "$cpus" -ge 1 ] || cpus=1
build/bin/volador start --head --cluster=quickstart --port=0 --name=first --num-cpus="$cpus" --quiet
address=$(build/bin/volador status --json | sed -n 's/.*"address": *"\([^"]*\)".*/\1/p' | head -n 1)
VOLADOR_TOKEN=$(build/bin/volador token create --role=join --valid-for=5min) \
  build/bin/volador start --address="$address" --name=second --num-cpus="$cpus" --quiet
build/bin/volador status
echo

# Ctrl-C reaches the program too: it keeps its results and ends by itself.
trap 'interrupted=yes' INT
interrupted=
code=0
build/bin/tune_digits "$@" || code=$?
trap 'exit 130' INT

stop_all
[ "$code" -eq 0 ] || exit "$code"
[ -z "$interrupted" ] || exit 130
cat <<'END'

The cluster of this run is stopped. One of your own:
  build/bin/volador start --head     on this machine; --bind=auto lets other machines join
  build/bin/tune_digits              a program finds it by itself
  build/bin/volador status           and: list nodes|actors|trials, logs, explain, stop
Next: docs/getting-started.md
END
