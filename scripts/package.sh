#!/usr/bin/env bash
# package.sh [--out=DIR]: makes volador-VERSION-linux-x86_64.tar.zst, which runs where it is unpacked, and volador_VERSION_amd64.deb of this
# checkout, on Debian 12. Their programs need libc alone, 2.35 or newer: Debian 12, Ubuntu 22.04 and 24.04.
#
#   --out=DIR                 where they are put; build-package by default
#   --check [SUITE…]          tries what lies in DIR in file systems of bookworm, jammy and noble, or of those named: starts a cluster, runs the
#                             demo, compiles a program; needs root, debootstrap and a network the first time
#   --check-symbols FILE…     says whether programs need more of the system than those distributions have
#   --check-archive FILE      says whether a .tar.zst or a .deb holds what it should
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$here"

usage='usage: package.sh [--out=DIR] [--check [bookworm|jammy|noble …]] | --check-symbols FILE… | --check-archive FILE'
say() { printf 'package: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# The oldest of the distributions has these: Ubuntu 22.04.
glibc_max=2.35 glibcxx_max=3.4.30 cxxabi_max=1.3.13
version=$(sed -n 's/^project(volador VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
name=volador-$version-linux-x86_64
cache=${XDG_CACHE_HOME:-$HOME/.cache}/volador
build=build-package

# newer A B: whether version A is above B.
newer() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -n 1)" = "$1" ]; }

# highest FILE PREFIX: the highest version of symbols that the file takes from shared libraries: highest FILE GLIBC_ prints 2.34.
highest() {
  { objdump -T "$1" | grep -oE "\(?$2[0-9.]+" || true; } | sed "s/^(\?$2//" | sort -Vu | tail -n 1
}

check_symbols() {
  local file pair prefix max found library good=yes
  for file in "$@"; do
    [ -r "$file" ] || fail "--check-symbols: there is no file $file"
    objdump -p "$file" >/dev/null 2>&1 || fail "--check-symbols: $file is no program or library"
    for pair in GLIBC_:$glibc_max GLIBCXX_:$glibcxx_max CXXABI_:$cxxabi_max; do
      prefix=${pair%:*} max=${pair#*:}
      found=$(highest "$file" "$prefix")
      if [ -n "$found" ] && newer "$found" "$max"; then
        say "$file needs $prefix$found, and Ubuntu 22.04 has $prefix$max; these symbols are too new: $(objdump -T "$file" | grep -F "$prefix$found" | awk '{ print $NF }' | sort -u | head -n 5 | xargs)"
        good=
      fi
    done
    while read -r library; do
      case $library in
        libc.so.6 | libm.so.6 | ld-linux-x86-64.so.2 | libstdc++.so.6 | libgcc_s.so.1) ;;
        *)
          say "$file needs the shared library $library; link it statically (cmake/VoladorStatic.cmake)"
          good=
          ;;
      esac
    done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }')
  done
  [ -n "$good" ]
}

# What has to be in an archive, relative to its top.
contents="bin/volador bin/volador_demo lib/libvolador.a lib/cmake/volador/volador-config.cmake lib/cmake/volador/volador-config-version.cmake
lib/cmake/volador/FindLibTorch.cmake lib/cmake/volador/libtorch.txt include/volador-0/volador/volador.h include/volador-0/tl/expected.hpp"

check_archive() {
  local file=$1 top listing path missing=()
  [ -r "$file" ] || fail "--check-archive: there is no file $file"
  case $file in
    *.tar.zst)
      listing=$(tar --use-compress-program=zstd -tf "$file") || fail "$file is no archive that tar and zstd read"
      top=$(basename "$file" .tar.zst)
      set -- LICENSE README.md CHANGELOG.md examples/CMakeLists.txt examples/hello_actor.cc licences/README.md licences/libgrpc-dev.txt
      ;;
    *.deb)
      listing=$(dpkg-deb --fsys-tarfile "$file" | tar -t) || fail "$file is no package that dpkg-deb reads"
      top=./usr
      set -- share/doc/volador/copyright share/doc/volador/examples/CMakeLists.txt share/doc/volador/licences/libgrpc-dev.txt
      ;;
    *) fail "--check-archive: expected a .tar.zst or a .deb, got $file" ;;
  esac
  for path in $contents "$@"; do
    grep -qxF "$top/$path" <<<"$listing" || missing+=("$path")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    say "$file lacks ${missing[*]}"
    return 1
  fi
  if path=$(grep -vE "^(\./|\./usr/|$top(/.*)?)$" <<<"$listing" | head -n 1) && [ -n "$path" ]; then
    say "$file holds $path, which is not below $top"
    return 1
  fi
}

# --- the sources of CAF and curl ------------------------------------------------------------------------------------------------------------

# fetch_source WORK ARGUMENT…: fetches sources into a folder as apt does, which checks their signatures.
fetch_source() {
  local work=$1
  shift
  mkdir -p "$work/lists/partial"
  echo 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main' >"$work/sources.list"
  local apt=(apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/lists"
    -o APT::Sandbox::User=root)
  { "${apt[@]}" update && (cd "$work" && "${apt[@]}" source --only-source --download-only "$@"); } >"$work/log" 2>&1 </dev/null || {
    tail -n 5 "$work/log" >&2
    rm -rf "$work"
    fail "apt-get could not fetch the sources of ${*: -1}"
  }
}

# Prints the folder of CAF's sources; fetches them, and looks at their digest.
caf_source() {
  local package upstream digest folder work
  read -r package upstream digest < <(grep -v '^#' scripts/package/caf.txt)
  folder=$cache/$package-$upstream
  if [ ! -d "$folder/libcaf_core/src" ]; then
    say "fetching the sources of CAF $upstream (2.7 MB)"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/caf.XXXXXX")
    fetch_source "$work" --tar-only "$package"
    echo "$digest  $work/${package}_$upstream.orig.tar.gz" | sha256sum --check --quiet >&2 ||
      fail "${package}_$upstream.orig.tar.gz is not the archive that scripts/package/caf.txt names"
    tar -xzf "$work/${package}_$upstream.orig.tar.gz" -C "$work"
    rm -rf "$folder"
    mv -T "$work/actor-framework-$upstream" "$folder"
    rm -rf "$work"
  fi
  printf '%s\n' "$folder"
}

# Prints the folder of curl's sources, with Debian's patches for the version of the installed headers, or the newest.
curl_source() {
  local version folder work patch
  version=$(dpkg-query -W -f='${source:Version}' libcurl4-openssl-dev)
  if [ ! -e "$cache/curl-$version/patched" ]; then
    say "fetching the sources of curl (4.4 MB)"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/curl.XXXXXX")
    fetch_source "$work" curl
    version=$(sed -n 's/^Version: //p' "$work"/curl_*.dsc | head -n 1)
    folder=$work/curl
    mkdir "$folder"
    tar -xf "$work"/curl_*.orig.tar.gz -C "$folder" --strip-components=1
    tar -xf "$work"/curl_*.debian.tar.* -C "$folder"
    while read -r patch; do
      patch -d "$folder" -p1 --quiet <"$folder/debian/patches/$patch" >&2 || fail "the patch $patch of Debian's curl $version does not apply"
    done < <(sed 's/#.*//; s/[[:space:]]*$//; /^$/d; /^9[0-9]_\(gnutls\|nss\)/d' "$folder/debian/patches/series")
    touch "$folder/patched"
    rm -rf "${cache:?}/curl-$version"
    mv -T "$folder" "$cache/curl-$version"
    rm -rf "$work"
  fi
  printf '%s\n' "$cache/curl-$version"
}

# --- the one library ------------------------------------------------------------------------------------------------------------------------

# link_archives PROGRAM: the archives that it is linked with, of libc's none.
link_archives() {
  local archive
  ninja -C "$build" -t commands "bin/$1" | tail -n 1 | tr ' ' '\n' | grep '\.a$' | sort -u | while read -r archive; do
    case $archive in
      */librt.a | */libdl.a | */libpthread.a) ;;  # Empty since glibc 2.34.
      */libc.a | */libm.a) fail "$1 is linked with $archive; libc has to stay a shared library" ;;
      /*) printf '%s\n' "$archive" ;;
      *) printf '%s\n' "$here/$build/$archive" ;;
    esac
  done
}

# Whether an archive is of this project's sources.
is_ours() { [[ $1 == "$here/$build/"* && $1 != */libvolador_fmt.a && $1 != */libvolador_caf.a && $1 != */libcurl.a ]]; }

# Makes one archive of those that programs link. The names of other libraries get a prefix: a program may link another gRPC, fmt or OpenSSL
# than the one in here, also as a shared library, and neither sees the other.
make_library() {
  local out=$1 work archive symbols number=0
  work=$(mktemp -d "$build/library.XXXXXX")
  symbols() { nm --defined-only --extern-only --format=posix "$1" 2>/dev/null | awk 'NF >= 2 && $2 ~ /^[A-Za-z]$/ { print $1 }' | sort -u; }
  local archives
  mapfile -t archives < <(link_archives volador_demo | grep -v '/libz\.a$'; link_archives volador | grep '/libz\.a$')
  for archive in "${archives[@]}"; do
    if is_ours "$archive"; then symbols "$archive" >>"$work/ours"; else symbols "$archive" >>"$work/theirs"; fi
  done
  # What is defined for std alone keeps its name: it is the same everywhere. Ours too, but for what is instantiated for types of theirs.
  awk '
    function foreign(name) {
      return name ~ /(^|[^0-9])(4grpc|9grpc_core|17grpc_event_engine|6google8protobuf|4absl|3re2|3caf|3fmt2v9|6spdlog|4YAML)/
    }
    function standard(name) { return name ~ /^_Z(T[VISTC]|GV|GR|Z)*(NK?)?S[tabsiod]/ || name ~ /^_Z(nw|na|dl|da)/ }
    /^DW\.ref\./ || /^__/ && !/^__(grpc|upb)/ { next }
    FILENAME == ARGV[1] ? foreign($0) : (foreign($0) || !standard($0)) { print $0, "volador." $0 }
  ' "$work/ours" "$work/theirs" | sort -u >"$work/names"
  echo "create $work/all.a" >"$work/script"
  for archive in "${archives[@]}"; do
    number=$((number + 1))
    objcopy --strip-debug --remove-section=.comment --redefine-syms="$work/names" "$archive" "$work/$number.a"
    echo "addlib $work/$number.a" >>"$work/script"
  done
  printf 'save\nend\n' >>"$work/script"
  ar -M <"$work/script"
  mv "$work/all.a" "$out"
  rm -rf "$work"
}

# --- licences -------------------------------------------------------------------------------------------------------------------------------

# Where a library has none of its own in the link: it is headers, or of the compiler, or compiled here.
header_packages="libcaf-dev libfmt-dev libspdlog-dev libexpected-dev libeigen3-dev libcli11-dev nlohmann-json3-dev libstdc++-12-dev"

make_licences() {
  local out=$1 archive package packages file
  mkdir -p "$out"
  for archive in $({ link_archives volador; link_archives volador_demo; } | sort -u); do
    [[ $archive == "$here/"* ]] && continue
    package=$(dpkg-query -S "$archive" 2>/dev/null | head -n 1 | cut -d: -f1)
    [ -n "$package" ] || fail "no Debian package holds $archive, so its licence is not known; install the library as a package"
    packages+=" $package"
  done
  for package in $(printf '%s\n' $packages $header_packages | sort -u); do
    file=/usr/share/doc/$package/copyright
    [ -r "$file" ] || fail "$file is not there; reinstall $package with its documentation"
    cp -L "$file" "$out/$package.txt"
  done
  cp scripts/package/licences/*.txt "$out/"
  for file in Apache-2.0 MPL-2.0 GPL-3 CC0-1.0; do cp "/usr/share/common-licenses/$file" "$out/$file.txt"; done
  cp "$(caf_source)/LICENSE_ALTERNATIVE" "$out/BSL-1.0.txt"
  cp "$(curl_source)/COPYING" "$out/curl.txt"
  cat >"$out/README.md" <<'END'
# Licences

Volador is under the Apache License 2.0 (LICENSE). Its programs and libvolador.a hold the libraries of Debian 12 whose copyright files lie here,
under the name of the Debian package; where such a file names a text in /usr/share/common-licenses, it lies here too. None of their sources
was changed. libcurl, with Debian's patches, is under the licence in curl.txt. Those of Eigen (MPL 2.0, headers) and of all others are at https://sources.debian.org.
Boost's headers (Beast, Asio and what they need) are under the Boost Software License: BSL-1.0.txt.
libstdc++ and libgcc are linked under the GCC Runtime Library Exception, which libstdc++-12-dev.txt holds. Zstandard is used under its BSD licence.
The dashboard's page holds Preact, its signals, uPlot and Marked: preact.txt, preact-signals.txt, preact-signals-core.txt, uplot.txt, marked.txt.
END
}

# --- the package ----------------------------------------------------------------------------------------------------------------------------

# Prints the public headers, relative to the checkout: what <volador/volador.h> needs.
public_headers() {
  echo '#include <volador/volador.h>' | g++ -std=c++20 -I. -MM -x c++ - | tr ' \\' '\n\n' | grep -E '^(runtime|tune|volador)/.*\.h$' | sort -u
}

# Fills an empty folder as the tarball is laid out.
fill() {
  local top=$1 header
  cmake --install "$build" --prefix "$top" >/dev/null
  rm -rf "${top:?}/share"
  strip --strip-all "$top/bin/volador" "$top/bin/volador_demo"
  make_library "$top/lib/libvolador.a"
  public_headers | while read -r header; do install -D -m 644 "$header" "$top/include/volador-0/$header"; done
  install -D -m 644 /usr/include/tl/expected.hpp "$top/include/volador-0/tl/expected.hpp"
  mkdir -p "$top/examples/data"
  # The library of training is not in the package, which does without LibTorch.
  grep -L 'include <train/' examples/*.cc | xargs cp -t "$top/examples/"
  cp examples/*.h "$top/examples/"
  cp examples/data/* "$top/examples/data/"
  (cd examples && find determined -type f -not -name '*.pyc' -exec cp --parents -t "$top/examples/" {} +)
  cp scripts/package/examples.cmake "$top/examples/CMakeLists.txt"
  cp LICENSE README.md CHANGELOG.md "$top/"
  git ls-files -- docs | while read -r header; do install -D -m 644 "$header" "$top/$header"; done
  make_licences "$top/licences"
}

make_tarball() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w -C "$1" -cf - "$name" | zstd -q -19 -T0 -f -o "$out/$name.tar.zst"
}

make_deb() {
  local from=$1/$name root=$1/deb doc libc
  doc=$root/usr/share/doc/volador
  mkdir -p "$root/DEBIAN" "$root/usr" "$doc"
  cp -a "$from/bin" "$from/lib" "$from/include" "$root/usr/"
  cp -a "$from/examples" "$from/licences" "$from/docs" "$from/README.md" "$doc/"
  gzip -9nc "$from/CHANGELOG.md" >"$doc/changelog.gz"
  { printf 'Volador %s, Apache-2.0. The libraries that it holds: licences/README.md beside this file.\n\n' "$version"; cat LICENSE; } >"$doc/copyright"
  chmod -R go-w "$root"
  libc=$(for file in "$from"/bin/*; do highest "$file" GLIBC_; done | sort -V | tail -n 1)
  cat >"$root/DEBIAN/control" <<END
Package: volador
Version: $version
Architecture: amd64
Maintainer: Volador developers
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: libc6 (>= $libc)
Suggests: g++, cmake
Section: science
Priority: optional
Description: distributed actor runtime in C++20 for training and tuning models
 The command volador with its dashboard, and the library and headers for
 programs that use it: find_package(volador) of CMake.
END
  dpkg-deb --root-owner-group -Zxz --build "$root" "$out/volador_${version}_amd64.deb" >/dev/null 2>"$1/deb.log" || { cat "$1/deb.log" >&2; fail "dpkg-deb failed"; }
}

make_package() {
  local tool caf curl work
  [ "$(uname -m)" = x86_64 ] || fail "packages are made on x86_64, and this machine is $(uname -m)"
  VOLADOR_TORCH=OFF scripts/setup.sh --for=run
  for tool in zstd objcopy objdump ar nm strip dpkg-deb patch xz; do
    command -v "$tool" >/dev/null || fail "there is no $tool; as root: apt-get install zstd binutils dpkg patch xz-utils"
  done
  caf=$(caf_source)
  curl=$(curl_source)
  cmake --preset package -DVOLADOR_UNITY=ON -DVOLADOR_CAF_SOURCE="$caf" -DVOLADOR_CURL_SOURCE="$curl" >"$build.log" 2>&1 || { mkdir -p "$build"; tail -n 20 "$build.log" >&2; fail "cmake failed"; }
  mv "$build.log" "$build/configured.log"
  ninja -C "$build" volador volador_demo >"$build/built.log" 2>&1 || { grep -v '^\[' "$build/built.log" | tail -n 40 >&2; fail "the build failed"; }
  mkdir -p "$out"
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
  export SOURCE_DATE_EPOCH
  work=$(mktemp -d "$build/package.XXXXXX")
  # shellcheck disable=SC2064  # The trap runs where `work` is unknown.
  trap "rm -rf '$work'" EXIT
  fill "$work/$name"
  check_symbols "$work/$name"/bin/*
  make_tarball "$work"
  make_deb "$work"
  check_archive "$out/$name.tar.zst"
  check_archive "$out/volador_${version}_amd64.deb"
  (cd "$out" && sha256sum "$name.tar.zst" "volador_${version}_amd64.deb" >SHA256SUMS)
  (cd "$work/$name" && du -sm bin/volador bin/volador_demo lib/libvolador.a | awk '{ print $2 ": " $1 " MB" }')
  (cd "$out" && du -sm "$name.tar.zst" "volador_${version}_amd64.deb" | awk '{ print $2 ": " $1 " MB" }')
}

# --- arguments ------------------------------------------------------------------------------------------------------------------------------

out=$build
mode=make
operands=()
for argument in "$@"; do
  case $argument in
    --out=?*) out=${argument#--out=} ;;
    --check | --check-symbols | --check-archive)
      [ "$mode" = make ] || fail "$argument and --$mode exclude each other; $usage"
      mode=${argument#--}
      ;;
    -*) fail "unknown argument $argument; $usage" ;;
    *) operands+=("$argument") ;;
  esac
done
[ -n "$version" ] || fail "CMakeLists.txt names no version: expected a line project(volador VERSION …)"
case $mode in
  make)
    [ "${#operands[@]}" -eq 0 ] || fail "unknown argument ${operands[0]}; $usage"
    make_package
    ;;
  check)
    for suite in "${operands[@]}"; do
      case $suite in
        bookworm | jammy | noble) ;;
        *) fail "--check: expected bookworm, jammy or noble, got $suite" ;;
      esac
    done
    exec scripts/package/check.sh "$out/$name.tar.zst" "$out/volador_${version}_amd64.deb" "${operands[@]}"
    ;;
  check-symbols)
    [ "${#operands[@]}" -gt 0 ] || fail "--check-symbols: expected files, got none; $usage"
    check_symbols "${operands[@]}"
    ;;
  check-archive)
    [ "${#operands[@]}" -eq 1 ] || fail "--check-archive: expected one file, got ${#operands[@]}; $usage"
    check_archive "${operands[0]}"
    ;;
esac
