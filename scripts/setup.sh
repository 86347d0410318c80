#!/usr/bin/env bash
# setup.sh [--for=run|develop]: installs what Volador needs on Debian 12. Says nothing and changes nothing where all of it is there.
#
#   --for=run      what it is built and run with: the packages of scripts/packages.txt, and LibTorch from PyPI into the user's cache
#   --for=develop  the default: also what its tests need: the packages of scripts/packages_develop.txt, and for the tests of the dashboard's
#                  page (scripts/setup_web.sh), of the gRPC API (setup_grpcio.sh), of event files (setup_tensorboard.sh), of mail
#                  (setup_aiosmtpd.sh), of sign-in by a provider (setup_oidc.sh), of storages (setup_storage.sh) and of the HTTP API
#                  (setup_schemathesis.sh) what these scripts install, and for the Python package and its tests (setup_nanobind.sh,
#                  setup_pytorch.sh, setup_keras.sh, setup_nbclient.sh, setup_basedpyright.sh)
#   VOLADOR_TORCH=DIR   use the LibTorch in DIR (the torch folder of a wheel) and install none
#   VOLADOR_TORCH=OFF   do without LibTorch: tune_digits is not built then
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

purpose=develop
for argument in "$@"; do
  case $argument in
    --for=run | --for=develop) purpose=${argument#--for=} ;;
    *) fail "unknown argument $argument; usage: setup.sh [--for=run|develop]" ;;
  esac
done

# The names in the lists of packages.
packages() {
  local lists=("$here/packages.txt")
  [ "$purpose" = run ] || lists+=("$here/packages_develop.txt")
  sed 's/#.*//; s/[[:space:]]//g; /^$/d' "${lists[@]}"
}

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' 2>/dev/null | awk '$2 == "installed" { print $1 }' | sort -u)
  comm -23 <(packages | sort -u) <(printf '%s\n' "$installed")
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_packages() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
    fail "this is not Debian; install the libraries that scripts/packages.txt names by hand"
  local missing
  mapfile -t missing < <(missing_packages)
  [ "${#missing[@]}" -eq 0 ] && return
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "these packages are missing, and without root or sudo they cannot be installed; as root: apt-get install ${missing[*]}"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local log policy=/usr/sbin/policy-rc.d made_policy=
  log=$(mktemp)
  # Debian starts the services of packages that it installs; the tests start redis-server themselves.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    made_policy=yes
  fi
  local ok=yes
  { as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null || ok=
  [ -z "$made_policy" ] || as_root rm -f "$policy"
  if [ -z "$ok" ]; then
    tail -n 20 "$log" >&2
    fail "apt-get failed; the whole output is in $log"
  fi
  rm -f "$log"
}

# SHA-256 of a file in the form that a wheel's RECORD has.
record_digest() {
  python3 -c 'import base64, hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    while block := file.read(1 << 20): digest.update(block)
print(base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode())' "$1"
}

install_libtorch() {
  case ${VOLADOR_TORCH:-} in
    OFF) return ;;
    ?*)
      [ -e "$VOLADOR_TORCH/lib/libtorch_cpu.so" ] ||
        fail "VOLADOR_TORCH=$VOLADOR_TORCH holds no lib/libtorch_cpu.so; name the torch folder of a wheel, or unset it"
      return
      ;;
  esac
  local version cache folder marker
  version=$(sed -n 's/^torch==\([^ ]*\).*/\1/p' "$here/libtorch.txt")
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
  folder=$cache/torch-$version
  marker=$folder/verified
  # The marker is written last, and holds what was verified: the list of wheels.
  cmp -s "$here/libtorch.txt" "$marker" && [ -e "$folder/torch/lib/libtorch_cpu.so" ] && return
  [ "$(uname -m)" = x86_64 ] || fail "scripts/libtorch.txt names wheels for x86_64; set VOLADOR_TORCH to another LibTorch $version, or to OFF"

  mkdir -p "$cache"
  exec 9>"$cache/torch-$version.lock"
  flock 9
  if cmp -s "$here/libtorch.txt" "$marker"; then exec 9>&-; return; fi
  say "installing LibTorch $version from PyPI into $folder (1.3 GB)"
  work=$(mktemp -d "$cache/torch-$version.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --require-hashes \
    --only-binary=:all: --target="$work/site" --requirement="$here/libtorch.txt" </dev/null >&2 ||
    fail "pip could not install the wheels of scripts/libtorch.txt; set VOLADOR_TORCH to another LibTorch, or to OFF to do without"

  local record=$work/site/torch-$version.dist-info/RECORD library=torch/lib/libtorch_cpu.so expected
  expected=$(sed -n "s|^$library,sha256=\([^,]*\),.*|\1|p" "$record")
  [ -n "$expected" ] && [ "$(record_digest "$work/site/$library")" = "$expected" ] ||
    fail "$library is not the file that its wheel names; is the disk full?"
  cp "$here/libtorch.txt" "$work/site/verified"
  rm -rf "$folder"
  mv -T "$work/site" "$folder"
  rm -rf "$work"
  trap - EXIT
  exec 9>&-
}

install_packages
install_libtorch
if [ "$purpose" = develop ]; then
  "$here/setup_web.sh"
  "$here/setup_grpcio.sh"
  "$here/setup_tensorboard.sh"
  "$here/setup_aiosmtpd.sh"
  "$here/setup_storage.sh"
  "$here/setup_oidc.sh"
  "$here/setup_schemathesis.sh"
  "$here/setup_nanobind.sh"
  "$here/setup_pytorch.sh"
  "$here/setup_keras.sh"
  "$here/setup_nbclient.sh"
  "$here/setup_basedpyright.sh"
fi
