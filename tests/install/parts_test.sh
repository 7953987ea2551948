#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: parts_test.sh TREE CXX_COMPILER
# Builds the parts that can be built alone: the library, the library within another project, the emulated hardware. Configures
# each as if packages that only other parts need were missing.
set -euo pipefail

tree=$1
compiler=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# without PACKAGE...: sets `missing`, options of cmake that hide them.
without() {
  missing=()
  local package
  for package in "$@"; do
    missing+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON")
  done
}

# build NAME SOURCE_FOLDER OPTION...: configures and builds a project in $work/NAME.
build() {
  local name=$1 source=$2
  shift 2
  printf -- '-- %s\n' "$name"
  if ! { cmake -S "$source" -B "$work/$name" -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" "$@" && cmake --build "$work/$name"; } \
    >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    fail "$name does not build"
  fi
}

without CLI11 nlohmann_json GTest benchmark pybind11 Python
build library "$tree" -DHBMWIRE_BUILD_TOOLS=OFF -DHBMWIRE_BUILD_EMULATION=OFF -DHBMWIRE_BUILD_PYTHON=OFF "${missing[@]}"
[[ -e $work/library/lib/libhbmwire.so ]] || fail "no library was built"
[[ ! -e $work/library/bin/hbmwire ]] || fail "the program was built, too"

build parent "$here/parent" "-DHBMWIRE=$tree" "${missing[@]}"
"$work/parent/programs/consumer"
mkdir "$work/installed"
cmake --install "$work/parent" --prefix "$work/installed" >/dev/null
[[ -z $(find "$work/installed" -type f) ]] || fail "the parent's installation has files of hbmwire"

without nlohmann_json GTest benchmark
build emulation "$tree/emulation" "${missing[@]}"
# shellcheck disable=SC2016  # expanded by the inner shell
devices=$("$work/emulation/libexec/hbmwire/emulate" --quiet --nics 2 -- sh -c 'ls "$SYSFS_PATH/class/infiniband" | wc -l')
[[ $devices -eq 2 ]] || fail "the emulated hardware has $devices NICs, not 2"
echo "all well"
