#!/bin/bash
# trial.sh run|compile TARBALL DEB: what a newcomer does with a package, in a file system of its own (scripts/package/check.sh).
set -euo pipefail
kind=$1 tarball=$2 deb=$3
cd /root
name=${tarball%.tar.zst}
fail() { echo "FAILED: $*"; exit 1; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# use FOLDER-OF-PROGRAMS: a cluster, an experiment, the end of it.
use() {
  local bin=$1
  "$bin/volador" version
  "$bin/volador" status | head -n 3
  "$bin/volador" stop --all
  "$bin/volador" demo --once --samples=4 >demo.log 2>&1 || { tail -n 20 demo.log; fail "demo"; }
  tail -n 3 demo.log
  # Its processes are waited for: all of them end.
  local left try
  for try in $(seq 100); do
    left=$(ls -l /proc/[0-9]*/exe 2>/dev/null | grep -F " $bin/volador" || true)
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  fail "left behind after $try tries: $left"
}

# compile PREFIX NAME: the program of tests/consumer.
compile() {
  local begin=$SECONDS
  cmake -S consumer -B "$2" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$1" -DVOLADOR_TORCH=OFF >log 2>&1 || { cat log; fail "cmake"; }
  cmake --build "$2" >log 2>&1 || { tail -n 60 log; fail "compilation"; }
  echo "compiled by $(g++ --version | head -n 1) and $(cmake --version | head -n 1) in $((SECONDS - begin)) s, $(du -m "$2/consumer" | cut -f1) MB"
  VOLADOR_HOME=/root/home-of-consumer "$2/consumer" || fail "the program"
}

case $kind in
  run)
    . /etc/os-release
    echo "$PRETTY_NAME"
    begin=$(milliseconds)
    tar xf "$tarball"
    "$name/bin/volador" start --head
    took=$(($(milliseconds) - begin))
    echo "unpacked and started in $took ms"
    [ "$took" -lt 10000 ] || fail "more than 10 s"
    use "/root/$name/bin"
    rm -rf "$name"
    dpkg -i "$deb" >log 2>&1 || { cat log; fail "dpkg -i"; }
    /usr/bin/volador start --head --quiet
    use /usr/bin
    dpkg -r volador >log 2>&1 || { cat log; fail "dpkg -r"; }
    [ ! -e /usr/bin/volador ] || fail "dpkg -r left /usr/bin/volador"
    ;;
  compile)
    tar xf "$tarball"
    compile "/root/$name" of-tarball
    cmake -S "$name/examples" -B examples >log 2>&1 || { cat log; fail "cmake of the examples"; }
    cmake --build examples --target ask_tell >log 2>&1 || { tail -n 60 log; fail "compilation of an example"; }
    examples/ask_tell >log 2>&1 || { cat log; fail "the example"; }
    tail -n 1 log
    rm -rf "$name"
    dpkg -i "$deb" >log 2>&1 || { cat log; fail "dpkg -i"; }
    compile /usr of-deb
    ;;
esac
