#!/usr/bin/env bash
# Checks the training library on a machine with a GPU: compiles the part of it that needs no cluster together with tests/gpu/gpu_check.cc against
# the torch of a Python there, and runs the program. Such a machine needs g++ 12 or later, python3 with torch for CUDA, and nothing else: no CMake,
# no network, none of our other dependencies, whose headers --bundle brings along.
#
#   scripts/gpu_check.sh --bundle [DIR]    here: copies the headers of fmt, tl-expected, nlohmann-json and zlib (by default to build-gpu/include)
#   scripts/gpu_check.sh --bundle-runtime  here: packs what actors need from the folder "build", and the shared libraries below it, into
#                                          build-gpu/runtime.tar.xz; the other machine must have the same processor architecture and a libc as new
#   scripts/gpu_check.sh [OPTIONS] [NAME]  there: options of the program, and parts of the names of checks to run; by default all run
#   scripts/gpu_check.sh --trainer         there: builds tests/gpu/gpu_trainer.cc with that runtime and runs it: training by actors
#
#   PYTHON=python3                 the Python that has torch; its folder "nvidia" is also searched for the headers of CUDA and NCCL
#   CUDA_HOME=/usr/local/cuda      another place for them, beside that of nvcc; without them the check of NCCL is skipped
#   VOLADOR_GPU_BUILD=build-gpu    the build folder; headers are taken from its folder "include" if it exists
#   JOBS=N                         compilers at once (by default the number of cores)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=${VOLADOR_GPU_BUILD:-build-gpu}
python=${PYTHON:-python3}
jobs=${JOBS:-$(nproc)}

fail() { printf 'gpu_check: %s\n' "$*" >&2; exit 2; }

bundle() {
  local to=$1 name from
  mkdir -p "$to"
  for name in fmt tl nlohmann openssl zlib.h zconf.h; do
    for from in /usr/include "/usr/include/$(gcc -print-multiarch)" /usr/local/include; do
      [ -e "$from/$name" ] && break
    done
    [ -e "$from/$name" ] || fail "$name is not among this machine's headers: run scripts/setup.sh"
    cp -rL "$from/$name" "$to/"
  done
  # Debian keeps the headers that depend on the architecture apart.
  from=/usr/include/$(gcc -print-multiarch)/openssl
  [ ! -d "$from" ] || cp -L "$from"/*.h "$to/openssl/"
  printf 'gpu_check: %s holds the headers (%s)\n' "$to" "$(du -sh "$to" | cut -f1)"
}

# Our libraries without LibTorch, and the shared libraries that they use.
bundle_runtime() {
  local program=build/bin/train_trainer to=$build/runtime archive
  [ -e "$program" ] || fail "$program is missing: build train_trainer"
  rm -rf "$to" && mkdir -p "$to"
  while read -r archive; do
    cp "build/$archive" "$to/"
  done < <(ninja -C build -t commands train_trainer | tail -1 | tr ' ' '\n' | grep '^[^/].*libvolador_.*\.a$' | grep -v '^train/libvolador_train\.a$' | sort -u)
  strip --strip-debug "$to"/*.a
  ldd "$program" | awk '$3 ~ /^\// {print $3}' | grep -v -e '/torch' -e '/nvidia' | grep -v -E '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' |
    xargs -I{} cp -L {} "$to/"
  tar -C "$build" -cJf "$build/runtime.tar.xz" runtime
  printf 'gpu_check: %s (%s)\n' "$build/runtime.tar.xz" "$(du -sh "$build/runtime.tar.xz" | cut -f1)"
}

is_trainer=
case ${1:-} in
  --bundle) bundle "${2:-$build/include}"; exit ;;
  --bundle-runtime) bundle_runtime; exit ;;
  --trainer) is_trainer=yes; shift ;;
esac

torch=$("$python" -c 'import torch; print(torch.__path__[0])') || fail "$python cannot import torch: name one that can in PYTHON"
[ -e "$torch/include/torch/version.h" ] || [ -e "$torch/include/torch/csrc/api/include/torch/version.h" ] ||
  fail "$torch has no headers of LibTorch"
nvidia=$(dirname "$torch")/nvidia
mkdir -p "$build"

# What a training loop needs, without actors, network and files of the cluster.
sources=(
  train/core/{bucket_plan,sampler,schedule}.cc
  train/data/{dataset,loader}.cc
  train/group/{backend_group,gradient_reducer,power_sgd,rendezvous,shared_group,shared_segment}.cc
  train/operator/{metric_means,rank_loop,sharded_optimizer,state_copy,sync_batch_norm,training_operator}.cc
  train/optim/{clip,grad_scaler,optimizers,state_dict,torch_archive,torch_pickle}.cc
  runtime/{ids,make_directory,paths,quantities,random,result}.cc
  runtime/files/{durable_file,results_mode}.cc
  runtime/serialize/codec.cc
  tune/loop/metrics.cc
  tune/space/config.cc
  tests/gpu/gpu_check.cc
)
program=gpu_check
if [ -n "$is_trainer" ]; then
  program=gpu_trainer
  [ -e "$build/runtime.tar.xz" ] || fail "$build/runtime.tar.xz is missing: run scripts/gpu_check.sh --bundle-runtime where Volador is built, and bring it here"
  tar -C "$build" -xJf "$build/runtime.tar.xz"
  sources=(
    train/data/{dataset,file_bytes,loader}.cc
    train/group/*.cc
    train/operator/*.cc
    train/optim/*.cc
    train/trainer/{rank_actor,rendezvous_actor,trainer}.cc
    tests/gpu/gpu_trainer.cc
  )
fi
flags=(-std=c++20 -O2 -Wall -Wno-array-bounds -Wno-stringop-overflow -DNOMINMAX -DFMT_HEADER_ONLY -I"$root")
[ -d "$build/include" ] && flags+=(-isystem "$build/include")
flags+=(-idirafter "$torch/include/torch/csrc/api/include" -idirafter "$torch/include")
header=$build/torch_header.h

# What was compiled with other flags or another torch is compiled again.
settings="${flags[*]} $(g++ -dumpfullversion) $(cat "$torch/version.py")"
if [ "$(cat "$build/settings" 2>/dev/null)" != "$settings" ]; then
  rm -f "$build"/*.o "$build"/*.d "$build"/*.gch "$build"/*.so
  printf '%s' "$settings" > "$build/settings"
fi

is_current() {  # OBJECT: nothing that it was made from is newer
  [ -e "$1" ] && [ -e "${1%.o}.d" ] || return 1
  local file
  for file in $(sed -e 's/^[^:]*://' -e 's/\\$//' "${1%.o}.d"); do
    if [ ! -e "$file" ] || [ "$file" -nt "$1" ]; then return 1; fi
  done
}

compile() {  # SOURCE
  local object=$build/${1//\//_}
  object=${object%.cc}.o
  is_current "$object" && return 0
  local own=()
  grep -q '#include <torch/torch.h>' "$1" && own+=(-include "$header")
  # The wheel lacks five headers of Gloo; those below gloo_headers stand in for them.
  [ "$1" = train/group/backend_group.cc ] && own+=(-Itrain/gloo_headers)
  g++ "${flags[@]}" "${own[@]}" -MMD -c "$1" -o "$object.new" -MF "${object%.o}.d" || { printf 'gpu_check: %s does not compile\n' "$1" >&2; return 1; }
  mv "$object.new" "$object"
}

compile_all() {  # SOURCES: as many at once as `jobs`
  local source failed=0 running=0
  for source in "$@"; do
    if [ "$running" -ge "$jobs" ]; then
      wait -n || failed=1
      running=$((running - 1))
    fi
    compile "$source" &
    running=$((running + 1))
  done
  while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
  done
  return "$failed"
}

# The plug-in for NCCL, as train/nccl/nccl_plugin.h describes it. Returns 1 where CUDA's headers are missing.
compile_plugin() {
  local plugin=$build/libvolador_nccl.so folder name include=() missing=()
  for folder in "$nvidia"/*/include "${CUDA_HOME:-/usr/local/cuda}/include" "$(dirname "$(command -v nvcc || echo /none/none)")/../include"; do
    [ -d "$folder" ] && include+=(-isystem "$folder")
  done
  for name in cuda_runtime.h crt/host_config.h cublas_v2.h cusparse.h cusolverDn.h nccl.h; do
    for folder in "${include[@]}"; do [ "$folder" != -isystem ] && [ -e "$folder/$name" ] && continue 2; done
    missing+=("$name")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    printf 'gpu_check: no plug-in for NCCL: %s not found\n' "${missing[*]}" >&2
    return 1
  fi
  [ "$plugin" -nt train/nccl/nccl_plugin.cc ] && [ "$plugin" -nt train/nccl/nccl_plugin.h ] && return 0
  g++ "${flags[@]}" "${include[@]}" -fPIC -shared -fvisibility=hidden train/nccl/nccl_plugin.cc -o "$plugin.new" "${link[@]}" || return 1
  mv "$plugin.new" "$plugin"
}

link=(-L"$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--allow-shlib-undefined -Wl,--no-as-needed -ltorch_cpu -lc10)
[ -e "$torch/lib/libtorch_cuda.so" ] && link+=(-ltorch_cuda -lc10_cuda)

begin=$SECONDS
with_torch=() without=()
for source in "${sources[@]}"; do
  [ -e "$source" ] || fail "$source is missing"
  if grep -q '#include <torch/torch.h>' "$source"; then with_torch+=("$source"); else without+=("$source"); fi
done
# LibTorch's header is compiled once; meanwhile everything that does not need it.
if [ ! -e "$header.gch" ]; then
  echo '#include <torch/torch.h>' > "$header"
  { g++ "${flags[@]}" -x c++-header "$header" -o "$header.gch.new" && mv "$header.gch.new" "$header.gch"; } & precompiled=$!
fi
plugin=
if [ -z "$is_trainer" ] && [ -e "$torch/lib/libtorch_cuda.so" ]; then compile_plugin & plugin=$!; fi
status=0
( compile_all "${without[@]}" ) || status=1
if [ -n "${precompiled:-}" ]; then wait "$precompiled" || fail "LibTorch's header does not compile"; fi
( compile_all "${with_torch[@]}" ) || status=1
[ "$status" = 0 ] || fail "not compiled; see above"
objects=()
for source in "${sources[@]}"; do object=$build/${source//\//_}; objects+=("${object%.cc}.o"); done
if [ -n "$is_trainer" ]; then
  runtime=$(realpath "$build/runtime")
  libraries=(-Wl,--start-group "$runtime"/*.a -Wl,--end-group "$runtime"/*.so* -Wl,--disable-new-dtags -Wl,-rpath,"$runtime")
else
  libraries=(-l:libz.so.1)
fi
g++ "${objects[@]}" -o "$build/$program" "${link[@]}" "${libraries[@]}" -ldl -lpthread
if [ -n "$plugin" ] && wait "$plugin"; then VOLADOR_NCCL_PLUGIN=$(realpath "$build/libvolador_nccl.so") && export VOLADOR_NCCL_PLUGIN; fi
printf 'gpu_check: compiled in %d s against %s\n' $((SECONDS - begin)) "$torch"

command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
# Libraries that CUDA's libraries open by name.
library_path=$(printf '%s:' "$torch/lib" "$nvidia"/*/lib)
export LD_LIBRARY_PATH=$library_path${LD_LIBRARY_PATH:-}
exec "$build/$program" "$@"
