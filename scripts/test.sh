#!/usr/bin/env bash
# Everything that a change must pass: installs what is missing, builds with warnings as errors, runs every test, then the unit,
# simulation and fuzz tests once more under the address/undefined-behaviour sanitizers and under the thread sanitizer.
# Ends with one line "N passed, N failed, N skipped"; a test that cannot run here is skipped, never passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh || exit 1

results=$(mktemp -d)
later=
trap '[ -z "$later" ] || kill -- -"$later" 2>/dev/null; rm -rf "$results"' EXIT
failed_steps=0

# step NAME COMMAND…: says what runs and how long it took.
step() {
  local name=$1 begin=$SECONDS
  shift
  printf -- '--- %s\n' "$name"
  if "$@"; then
    printf -- '--- %s: %d s\n' "$name" "$((SECONDS - begin))"
  else
    printf -- '--- %s: FAILED after %d s\n' "$name" "$((SECONDS - begin))"
    failed_steps=$((failed_steps + 1))
    return 1
  fi
}

configure() { cmake --preset "$1" -DVOLADOR_UNITY=ON >"$results/$1.configured" 2>&1 || { cat "$results/$1.configured"; return 1; }; }
# Output of the compiler only where it fails: ninja's status lines are many.
build() {
  local log="$results/$1.log"
  ninja -C "$1" "${@:2}" >"$log" 2>&1 || { grep -v '^\[' "$log" | tail -n 60; return 1; }
}
# run_tests BUILD-FOLDER NAME CTEST-ARGUMENT…: GoogleTest binaries leave a file of their cases each.
run_tests() {
  mkdir -p "$results/$2/cases"
  GTEST_OUTPUT="xml:$results/$2/cases/" ctest --test-dir "$1" --output-on-failure --output-junit "$results/$2/ctest.xml" \
    --no-tests=error --timeout 300 "${@:3}" >"$results/$2/output" 2>&1
  local code=$?
  grep -vE '^(Internal ctest|Test project|      Start )|^$' "$results/$2/output" | if [ $code -eq 0 ]; then tail -n 80; else cat; fi
  return $code
}
# run_tests_and_again BUILD-FOLDER NAME CTEST-ARGUMENT…: what fails beside other tests is run a second time with nothing beside it, and that run
# counts. Both are printed: a test that passes only alone depends on time, and is to be mended.
run_tests_and_again() {
  run_tests "$@" && return
  echo "--- tests that failed, once more and one at a time"
  run_tests "$1" "$2-again" --rerun-failed
}

# build_later PRESET…: builds the sanitizers' tests, one after the other, with what the processors have left beside the tests that run
# meanwhile; built PRESET waits for one of them.
build_later() {
  set -m  # A process group of its own, so that it can be ended as a whole.
  {
    chrt --idle --pid 0 "$BASHPID"
    local preset code
    for preset; do
      { configure "$preset" && build "build-$preset" sanitized_tests; } >"$results/$preset.built" 2>&1
      code=$?
      echo $code >"$results/$preset.code.new" && mv "$results/$preset.code.new" "$results/$preset.code"
    done
  } &
  later=$!
  set +m
}
built() {
  until [ -e "$results/$1.code" ]; do
    kill -0 "$later" 2>/dev/null || [ -e "$results/$1.code" ] || { echo "the build of $1 was ended"; return 1; }
    sleep 1
  done
  local code
  code=$(cat "$results/$1.code")
  [ "$code" -eq 0 ] || cat "$results/$1.built"
  return "$code"
}

build_docs() { scripts/docs.sh >"$results/docs.log" 2>&1 || { tail -n 40 "$results/docs.log"; return 1; }; }

step "format" scripts/format.sh --check
step "documentation" build_docs

jobs=$(nproc)
cores='^(unit|sim|fuzz)$'  # Labels of the tests of pure cores.
if step "configure release" configure release && step "build release" build build; then
  step "tests of units" run_tests build release-units --label-regex "$cores" --parallel "$jobs"
  build_later asan tsan
  # What starts machines, clusters and browsers goes before anything else that runs. Two of them at once: they wait more than they compute.
  step "tests" run_tests_and_again build release --label-exclude "$cores" --parallel 2
else
  build_later asan tsan
fi
if step "build asan" built asan; then step "tests under asan" run_tests build-asan asan --label-regex "$cores" --parallel "$jobs"; fi
if step "build tsan" built tsan; then step "tests under tsan" run_tests build-tsan tsan --label-regex "$cores" --parallel "$jobs"; fi

# The closing line; a step that did not come to its tests counts as one failure.
python3 scripts/count_tests.py "$failed_steps" "$results"/*/
