#!/usr/bin/env bash
# run.sh types|unit|dist|page|views|queue|head|terminal|subscriptions|train|experiments|katib|models: one of the page's tests; 77, which ctest counts as skipped, where Node or its packages are missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
web=$root/dashboard/web

if ! node=$("$root/scripts/setup_web.sh" --node) || [ ! -e "$web/node_modules/vite" ]; then
  echo "skipped: Node 18 or the npm packages are missing; scripts/setup_web.sh installs them"
  exit 77
fi
export PATH=$node:$PATH
case $1 in
  types) exec node "$web/node_modules/typescript/bin/tsc" --noEmit -p "$web" ;;
  unit) exec node "$web/dev/unit.mjs" ;;
  dist) exec node "$web/dev/check_dist.mjs" ;;
  page) exec node "$root/tests/web/page_test.mjs" ;;
  views) exec node "$root/tests/web/views_test.mjs" ;;
  queue) exec node "$root/tests/web/queue_test.mjs" ;;
  head) exec node "$root/tests/web/head_test.mjs" "$2" "$3" ;;
  terminal) exec node "$root/tests/web/terminal_test.mjs" "$2" ;;
  subscriptions) exec node "$root/tests/web/subscriptions_test.mjs" "$2" "$3" ;;
  train) exec node "$root/tests/web/train_test.mjs" "$2" "$3" "$4" ;;
  experiments) exec node "$root/tests/web/experiments_test.mjs" "$2" ;;
  katib | models) exec node "$root/tests/web/$1_test.mjs" "$2" ;;
  *) echo "run.sh: expected types, unit, dist, page, views, queue, head, terminal, subscriptions, train, experiments, katib or models, got \"$1\""; exit 2 ;;
esac
