#!/usr/bin/env bash
# Figures of the dashboard's page in Chromium, over a real cluster with an experiment of 10,000 trials: page_load, page_bytes, page_scroll,
# page_scroll_drag and page_filter of docs/benchmarks.md. With an experiment of Katib of 500 trials: the time until the rows of its tab Katib
# (page_katib) and of its tab Trials (page_katib_trials) are painted, from an empty cache (load) and from another page (visit). Prints a line
# of JSON each, in the form of volador_bench --json.
#
#   scripts/bench_page.sh [--trials=10000] [--katib-trials=500] [--runs=5]
#
#   VOLADOR_BUILD=DIR   the build folder (by default build; ninja -C build volador tune_sleep makes what is needed)
#   VOLADOR_CHROMIUM    the browser, where it is not in its usual place
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${VOLADOR_BUILD:-$root/build}

fail() { printf 'bench_page: %s\n' "$*" >&2; exit 1; }

for program in volador tune_sleep; do
  [ -x "$build/bin/$program" ] || fail "$build/bin/$program is missing: ninja -C $build $program"
done
if ! node=$("$root/scripts/setup_web.sh" --node) || [ ! -e "$root/dashboard/web/node_modules/playwright-core" ]; then
  fail "Node 18 or the npm packages are missing; scripts/setup_web.sh installs them"
fi
exec "$node/node" "$root/tests/web/page_figures.mjs" "$build/bin/volador" "$build/bin/tune_sleep" "$@"
