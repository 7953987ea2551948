#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: bundle_test.sh TREE BUILD_FOLDER
# Moves the folder of scripts/bundle elsewhere, and checks that it is small, that it needs no newer glibc, and that its
# programs run without other files. Prints the highest version of glibc that it needs.
set -euo pipefail

tree=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

"$tree/scripts/bundle" --build "$build" "$work/made"
mkdir "$work/some where"
bundle="$work/some where/else"
mv "$work/made" "$bundle"
echo "highest glibc version needed: $(cat "$bundle/glibc")"
newest=$(printf '%s\nGLIBC_2.36\n' "$(cat "$bundle/glibc")" | sort -V | tail -n 1)
# Debian 12 has 2.36. A build on a newer system needs that system's version.
if [[ $newest != GLIBC_2.36 && $(ldd --version | head -n 1) == *2.36 ]]; then
  fail "it needs $newest, and Debian 12 has 2.36"
fi

bare() { (cd / && env -i PATH=/usr/bin:/bin HOME=/nonexistent "$@"); }
bare "$bundle/hbmwire" --version
bare "$bundle/hbmwire" info >"$work/info"
grep -q '^host  *always there' "$work/info" || fail "hbmwire info says: $(cat "$work/info")"
bare "$bundle/hbmwire" emulate --quiet --cuda 1 -- "$bundle/run" memory_test --gtest_brief=1 \
  --gtest_filter='Cuda/MemoryContract.*' >"$work/log" 2>&1 || fail "memory_test: $(tail -n 20 "$work/log")"
grep -q 'PASSED.* 29 tests' "$work/log" || fail "memory_test: $(tail -n 3 "$work/log")"
[[ $(bare "$bundle/run" 2>&1 || true) == *memory_test* ]] || fail "run does not name its programs"

mkdir "$work/mine"
touch "$work/mine/precious"
if "$tree/scripts/bundle" --build "$build" "$work/mine" 2>"$work/log"; then
  fail "a folder of the user's was replaced"
fi
[[ -e $work/mine/precious ]] || fail "a folder of the user's was emptied"
echo "all well"
