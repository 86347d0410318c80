#!/usr/bin/env bash
# script_test.sh SOURCE COMPILER: what scripts/package.sh says of wrong arguments, of programs that need too much, and of incomplete archives.
set -euo pipefail
script=$1/scripts/package.sh compiler=$2
for tool in objdump zstd dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

# refuses TEXT ARGUMENT…: package.sh fails, and its message holds the text.
refuses() {
  local text=$1 output
  shift
  if output=$("$script" "$@" 2>&1); then
    echo "FAILED: package.sh $* succeeded; expected: $text"
  elif [[ $output != *"$text"* ]]; then
    echo "FAILED: package.sh $* said: $output; expected: $text"
  else
    return 0
  fi
  failed=1
}
accepts() {
  local output
  output=$("$script" "$@" 2>&1) && return 0
  echo "FAILED: package.sh $* said: $output"
  failed=1
}

refuses 'unknown argument --fast; usage:' --fast
refuses 'unknown argument here; usage:' here
refuses '--check: expected bookworm, jammy or noble, got focal' --check focal
refuses 'make them first: scripts/package.sh' "--out=$work/none" --check jammy
refuses '--check-symbols and --check-archive exclude each other' --check-archive --check-symbols
refuses 'expected files, got none' --check-symbols
refuses "there is no file $work/none" --check-symbols "$work/none"
refuses 'expected one file, got 0' --check-archive
refuses "expected a .tar.zst or a .deb, got $script" --check-archive "$script"

# arc4random() came with glibc 2.36, one after that of Ubuntu 22.04.
echo 'int main() {}' >plain.cc
printf '#include <stdlib.h>\nint main() { return static_cast<int>(arc4random()); }\n' >new.cc
"$compiler" -o plain plain.cc
accepts --check-symbols "$work/plain"
if "$compiler" -o new new.cc 2>/dev/null; then
  refuses 'needs GLIBC_2.36, and Ubuntu 22.04 has GLIBC_2.35; these symbols are too new: arc4random' --check-symbols "$work/plain" "$work/new"
fi
echo 'extern "C" int of_library() { return 0; }' >library.cc
"$compiler" -shared -fPIC -Wl,-soname,libother.so.7 -o libother.so library.cc
"$compiler" -Wl,--no-as-needed -o shared plain.cc ./libother.so
refuses 'needs the shared library libother.so.7; link it statically' --check-symbols "$work/shared"
echo text >text
refuses 'is no program or library' --check-symbols "$work/text"

# An archive without the library, and one with a file beside its folder.
mkdir -p volador-0-linux-x86_64/bin
touch volador-0-linux-x86_64/bin/volador volador-0-linux-x86_64/bin/volador_demo
tar --zstd -cf volador-0-linux-x86_64.tar.zst volador-0-linux-x86_64
refuses 'lacks lib/libvolador.a ' --check-archive "$work/volador-0-linux-x86_64.tar.zst"
echo 'no archive' >volador-1-linux-x86_64.tar.zst
refuses 'is no archive that tar and zstd read' --check-archive "$work/volador-1-linux-x86_64.tar.zst"

[ "$failed" -eq 0 ]
