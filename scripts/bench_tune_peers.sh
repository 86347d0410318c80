#!/usr/bin/env bash
# Compares searchers with Optuna's, equal numbers of trials, functions and seeds: figure search_quality of docs/benchmarks.md.
# Installs Optuna with what its samplers need from PyPI into a folder of its own, below the user's cache.
#
#   scripts/bench_search_peers.sh [--samplers=tpe,cmaes,gp,nsga2] [--seeds=30]
#
#   VOLADOR_BUILD=DIR   the build folder that holds bin/search_runs (by default build; ninja -C build search_runs makes it)
#   VOLADOR_PEERS=DIR   the folder to install into; gp alone needs the whole of torch (some GB)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${VOLADOR_BUILD:-$here/../build}
peers=${VOLADOR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/volador/peers}

fail() { printf 'bench_search_peers: %s\n' "$*" >&2; exit 1; }

samplers=tpe,cmaes,gp,nsga2 seeds=30
for argument in "$@"; do
  case $argument in
    --samplers=*) samplers=${argument#*=} ;;
    --seeds=*) seeds=${argument#*=} ;;
    *) fail "$argument: expected --samplers=… or --seeds=…" ;;
  esac
done
[ -x "$build/bin/search_runs" ] || fail "$build/bin/search_runs is missing: ninja -C $build search_runs"

packages=(optuna==5.0.* cmaes)
case ,$samplers, in *,gp,*) packages+=(scipy torch) ;; esac
[ -x "$peers/bin/python" ] || python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"

runs=$(mktemp)
trap 'rm -f "$runs"' EXIT
"$build/bin/search_runs" --samplers="$samplers" --seeds="$seeds" > "$runs"
"$peers/bin/python" "$here/compare_search.py" --samplers="$samplers" --seeds="$seeds" "$runs"
