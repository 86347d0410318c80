#!/usr/bin/env bash
# format.sh [--check]: formats the C++ sources as .clang-format says (clang-format 14). --check changes nothing: it lists the lines that
# differ, and fails if there are any.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

each_source() { git ls-files -z '*.h' '*.cc' | xargs -0 -P "$(nproc)" -n 40 clang-format "$@"; }

case ${1:-} in
  "") each_source -i ;;
  --check)
    found=$(each_source --dry-run --Werror 2>&1) && exit
    grep -oE '^[^ :]+:[0-9]+' <<<"$found" | head -n 40 || echo "$found"
    echo "run scripts/format.sh"
    exit 1
    ;;
  *) echo "format.sh: unknown argument $1; usage: format.sh [--check]" >&2; exit 1 ;;
esac
