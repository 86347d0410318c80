#!/usr/bin/env bash
# Volador in one command: installs what is missing, builds, starts a head and two workers on this machine, tunes a small network on
# handwritten digits across them, shows the best of it, and stops everything again.
#
# The cluster is private to this run: its own folder, a free port, loopback only. A cluster that runs already is not touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

log=$(mktemp)
torch_log=$(mktemp)
fail() {
  tail -n 40 "$1" >&2
  printf 'quickstart: %s failed\n' "$2" >&2
  exit 1
}
quietly() { "$@" >"$log" 2>&1 || fail "$log" "$1 ${2:-}"; }

# build TARGET…: says how far it is: in a terminal on one line that changes, else every 20 s. Nothing where it ends within 2 s.
build() {
  local begin=$SECONDS told=$((SECONDS - 18)) line done all
  {
    NINJA_STATUS='@%f %t ' ninja -C build "$@" 2>&1 || echo "@failed"
  } | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in @[0-9]*) ;; *) continue ;; esac
    read -r done all _ <<<"${line#@}"
    [ $((SECONDS - begin)) -ge 2 ] || continue
    if [ -t 1 ]; then
      printf '\rbuilding %s: %d of %d files, %d s ' "$1" "$done" "$all" $((SECONDS - begin))
    elif [ $((SECONDS - told)) -ge 20 ]; then
      told=$SECONDS
      printf 'building %s: %d of %d files, %d s\n' "$1" "$done" "$all" $((SECONDS - begin))
    fi
  done
  [ ! -t 1 ] || [ $((SECONDS - begin)) -lt 2 ] || echo
  ! grep -qx '@failed' "$log" || fail "$log" "building $1"
}

VOLADOR_HOME=$(mktemp -d /tmp/volador-quickstart.XXXXXX)
export VOLADOR_HOME
unset VOLADOR_ADDRESS VOLADOR_TOKEN VOLADOR_CLUSTER VOLADOR_NAME
stopped=
torch=
stop_all() {
  [ -z "$stopped" ] || return 0
  stopped=yes
  [ -z "$torch" ] || kill -- -"$torch" 2>/dev/null || true
  [ ! -x build/bin/volador ] || build/bin/volador stop --all >"$log" 2>&1 || cat "$log" >&2
  rm -rf "$VOLADOR_HOME" "$log" "$torch_log"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ ! -x build/bin/tune_digits ]; then
  echo "The first run installs packages and LibTorch, 1.6 GB in all, and builds for some minutes: about 7 on 2 cores. The next ones take seconds."
fi
# LibTorch is downloaded beside the build, and only the example needs it.
VOLADOR_TORCH=OFF scripts/setup.sh --for=run
set -m  # A process group of its own, so that it can be ended as a whole.
scripts/setup.sh --for=run >"$torch_log" 2>&1 &
torch=$!
set +m
[ -e build/build.ninja ] || quietly cmake --preset release -DVOLADOR_UNITY=ON -DVOLADOR_TESTS=OFF
build volador
wait "$torch" || fail "$torch_log" "the installation of LibTorch"
torch=
ninja -C build -t query tune_digits >"$log" 2>&1 || quietly cmake -S . -B build  # It was configured without LibTorch.
build tune_digits

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
