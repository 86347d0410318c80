#!/usr/bin/env bash
# contents_test.sh SOURCE: the package that scripts/package.sh made last holds what it should, and its programs need no more than they may.
set -euo pipefail
cd "$1"
shopt -s nullglob
tarballs=("${VOLADOR_PACKAGES:-build-package}"/volador-*-linux-x86_64.tar.zst)
debs=("${VOLADOR_PACKAGES:-build-package}"/volador_*_amd64.deb)
if [ "${#tarballs[@]}" -ne 1 ] || [ "${#debs[@]}" -ne 1 ]; then
  echo "skipped: there is no package in ${VOLADOR_PACKAGES:-build-package}; scripts/package.sh makes one"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/package.sh --check-archive "${tarballs[0]}"
scripts/package.sh --check-archive "${debs[0]}"
tar --zstd -C "$work" -xf "${tarballs[0]}"
top=$work/$(basename "${tarballs[0]}" .tar.zst)
scripts/package.sh --check-symbols "$top"/bin/*
"$top/bin/volador" version

# The names of other libraries are out of the way of a program's own.
nm --defined-only --extern-only "$top/lib/libvolador.a" 2>/dev/null | awk '{ print $3 }' | sort -u >"$work/names"
if others=$(grep -E '^(SSL_new|sqlite3_open|inflate|ZSTD_compress|_ZN4grpc.*|_ZN3fmt2v9.*|_ZN6google8protobuf.*)$' "$work/names"); then
  echo "FAILED: libvolador.a defines $(head -n 5 <<<"$others" | xargs)"
  exit 1
fi
# No library without its licence, no path of the machine that it was made on.
[ "$(find "$top/licences" -type f | wc -l)" -ge 20 ] || { echo "FAILED: $(find "$top/licences" -type f | wc -l) licence texts"; exit 1; }
if named=$(grep -rlF -e "$PWD/" -e "$HOME/" "$top/bin" "$top/lib"); then
  echo "FAILED: $PWD or $HOME is named in $(xargs <<<"$named")"
  exit 1
fi
