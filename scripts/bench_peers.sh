#!/usr/bin/env bash
# Measures Ray and Volador in turn on this machine: figures of docs/benchmarks.md, the part between its two "peers" marks.
# The tuner is compared by bench_tune_peers.sh. Installs Ray from PyPI into a folder of its own, below the user's cache, runs Ray's own microbenchmark and build/bin/volador_bench.
#
#   scripts/bench_peers.sh [--write]
#
#   --write   puts the table into docs/benchmarks.md in place of the one that is there; else it is only printed
#
#   VOLADOR_BUILD=DIR   the build folder that holds bin/volador_bench (by default build)
#   VOLADOR_PEERS=DIR   the folder to install into (some 400 MB)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${VOLADOR_BUILD:-$here/../build}
peers=${VOLADOR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/volador/peers-ray}

fail() { printf 'bench_peers: %s\n' "$*" >&2; exit 2; }

write=
for argument in "$@"; do
  case $argument in
    --write) write=--write ;;
    *) fail "$argument: expected --write" ;;
  esac
done
[ -x "$build/bin/volador_bench" ] || fail "$build/bin/volador_bench is missing: cmake --build $build"

[ -x "$peers/bin/python" ] || python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check 'ray==2.60.*' grpcio numpy

exec "$peers/bin/python" "$here/compare_ray.py" $write --bench="$build/bin/volador_bench" --page="$here/../docs/benchmarks.md"
