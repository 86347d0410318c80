#!/usr/bin/env bash
# Compares training with PyTorch's torchrun and DistributedDataParallel on this machine, in turns: runs build/bin/train_bench with a Python
# that has torch of the version in scripts/libtorch.txt. Installs it from PyPI into a folder of its own below the user's cache: with all that
# torch depends on, since Python cannot import the CPU part alone.
#
#   scripts/bench_train_peers.sh [OPTIONS OF train_bench]
#
#   VOLADOR_BUILD=DIR   the build folder that holds bin/train_bench (by default build)
#   VOLADOR_PEERS=DIR   the folder to install into (some 5 GB)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${VOLADOR_BUILD:-$root/build}
peers=${VOLADOR_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/volador/bench-peers-train}

fail() { printf 'bench_train_peers: %s\n' "$*" >&2; exit 2; }

[ -x "$build/bin/train_bench" ] || fail "$build/bin/train_bench is missing: ninja -C $build train_bench"
version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$root/scripts/libtorch.txt")
[ -n "$version" ] || fail "$root/scripts/libtorch.txt: expected a line torch==VERSION"

[ -x "$peers/bin/python" ] || python3 -m venv "$peers"
"$peers/bin/pip" install --quiet --disable-pip-version-check "torch==$version" numpy

exec "$build/bin/train_bench" --peer="$peers/bin/python" "$@"
