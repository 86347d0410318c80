#!/usr/bin/env bash
# check.sh TARBALL DEB [SUITE…]: tries a package in file systems of Debian 12 and Ubuntu 22.04 and 24.04, for scripts/package.sh --check.
#
# Each trial has namespaces of its own, with no network but loopback, so nothing that it starts is left behind:
#   run      a file system without compilers: unpack, start, run the demo, stop; the same from the .deb
#   compile  a file system with g++ and cmake: a program with find_package(volador), of the tarball and of the .deb
# The file systems are kept in the cache: VOLADOR_ROOTS, by default ~/.cache/volador/roots, 0.8 GB in all.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tarball=$(realpath -m "$1") deb=$(realpath -m "$2")
shift 2
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm jammy noble)
roots=${VOLADOR_ROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/volador/roots}

say() { printf 'package: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }
[ -r "$tarball" ] && [ -r "$deb" ] || fail "there is no $tarball or no $deb; make them first: scripts/package.sh"
[ "$(id -u)" -eq 0 ] || fail "--check makes file systems and namespaces, which needs root"
for tool in debootstrap unshare chroot zstd ip; do
  command -v "$tool" >/dev/null || fail "there is no $tool; as root: apt-get install debootstrap zstd iproute2"
done
mkdir -p "$roots"

# quietly LOG WHAT COMMAND…
quietly() {
  local log=$1 what=$2
  shift 2
  "$@" >"$log" 2>&1 </dev/null || { tail -n 20 "$log" >&2; fail "$what failed"; }
}

# Makes $roots/SUITE.tar.zst and SUITE-compile.tar.zst where they are not there.
make_roots() {
  local suite=$1 work mirror=http://archive.ubuntu.com/ubuntu options=(--components=main,universe) script=
  [ ! -e "$roots/$suite-compile.tar.zst" ] || return 0
  say "making file systems of $suite (300 MB)"
  if [ "$suite" = bookworm ]; then
    mirror=http://deb.debian.org/debian options=()
  elif [ ! -e /usr/share/debootstrap/scripts/$suite ]; then
    script=/usr/share/debootstrap/scripts/gutsy  # All of Ubuntu's are this one.
  fi
  if [ "$suite" != bookworm ]; then
    if [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]; then
      options+=(--keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg)
    else
      say "$suite is not checked against Ubuntu's key: ubuntu-archive-keyring.gpg is not installed here"
      options+=(--no-check-gpg)
    fi
  fi
  work=$(mktemp -d "$roots/$suite.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  quietly "$work/log" "debootstrap of $suite" debootstrap "${options[@]}" --variant=minbase --include=zstd "$suite" "$work/root" "$mirror" $script
  tar --zstd -C "$work/root" -cf "$roots/$suite.tar.zst" .
  cp -L /etc/resolv.conf "$work/root/etc/resolv.conf"
  quietly "$work/log" "apt-get of $suite" chroot "$work/root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends g++ cmake make
  chroot "$work/root" apt-get clean
  tar --zstd -C "$work/root" -cf "$work/compile.tar.zst" .
  mv "$work/compile.tar.zst" "$roots/$suite-compile.tar.zst"
  rm -rf "$work"
  trap - EXIT
}

# trial SUITE KIND: runs trial.sh KIND in a fresh file system.
trial() {
  local suite=$1 kind=$2 archive=$roots/$1.tar.zst root
  [ "$kind" = run ] || archive=$roots/$suite-compile.tar.zst
  root=$(mktemp -d "$roots/trial.XXXXXX")
  tar -C "$root" -xf "$archive"
  cp "$tarball" "$deb" "$here/scripts/package/trial.sh" "$root/root/"
  cp -r "$here/tests/consumer/project" "$root/root/consumer"
  local code=0
  # shellcheck disable=SC2016  # It is expanded by the inner shell.
  unshare --mount --pid --net --uts --ipc --fork --kill-child bash -c '
    ip link set lo up
    mount --make-rprivate /
    mount -t proc proc "$1/proc"
    mkdir -p "$1/dev/shm"
    mount -t tmpfs -o size=2g tmpfs "$1/dev/shm"
    exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 bash /root/trial.sh "$2" "$3" "$4"
  ' - "$root" "$kind" "$(basename "$tarball")" "$(basename "$deb")" || code=$?
  rm -rf "$root"
  return $code
}

failed=0
for suite in "${suites[@]}"; do
  make_roots "$suite"
  for kind in run compile; do
    if trial "$suite" "$kind" 2>&1 | sed "s/^/$suite: /"; then :; else
      say "the trial '$kind' in $suite failed"
      failed=$((failed + 1))
    fi
  done
done
[ "$failed" -eq 0 ] || fail "$failed trials failed"
say "all trials passed"
