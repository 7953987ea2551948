#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: install_test.sh BUILD_FOLDER CXX_COMPILER [PYTHON]
# Installs the build into a temporary prefix, moves that, and uses it like others: from CMake, from pkg-config, from Python,
# and through the program with its own name and the seeds' names. PYTHON: the interpreter for which the build contains the
# package.
set -euo pipefail

build=$1
compiler=$2
python=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { printf -- '-- %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

step "install, and move what was installed"
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/prefix"
prefix=$work/prefix
program=$prefix/bin/hbmwire
cmake_dir=$(dirname "$(find "$prefix" -name hbmwireConfig.cmake)")
pkgconfig_dir=$(dirname "$(find "$prefix" -name hbmwire.pc)")

step "nothing installed names the build folder"
if found=$(grep -rIlF -e "$build" "$prefix"); then
  fail "$found"
fi
for elf in "$program" "$prefix"/lib*/libhbmwire.so "$prefix"/lib*/libhbmwire_c.so; do
  if readelf -d "$elf" | grep -E 'R(UN)?PATH' | grep -qF "$build"; then
    fail "$elf has a run path into the build folder"
  fi
done

step "a consumer by find_package"
if ! {
  cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_CXX_COMPILER="$compiler" -Dhbmwire_DIR="$cmake_dir" &&
    cmake --build "$work/consumer"
} >"$work/log" 2>&1; then
  cat "$work/log"
  fail "the consumer does not build"
fi
"$work/consumer/consumer"
"$program" emulate --quiet --gaudi 1 --cuda 1 -- "$work/consumer/endpoint"

step "a consumer by pkg-config"
read -ra flags <<<"$(PKG_CONFIG_PATH=$pkgconfig_dir pkg-config --cflags --libs hbmwire)"
"$compiler" -std=c++20 "$here/consumer/main.cpp" -o "$work/by_pkg_config" "${flags[@]}"
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libhbmwire.so)") "$work/by_pkg_config"

"$compiler" -std=c++20 -pthread "$here/consumer/endpoint.cpp" -o "$work/endpoint_by_pkg_config" "${flags[@]}"
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libhbmwire.so)") \
  "$program" emulate --quiet --gaudi 1 --cuda 1 -- "$work/endpoint_by_pkg_config"

step "a consumer in C, by find_package and by pkg-config"
if ! {
  cmake -S "$here/consumer_c" -B "$work/consumer_c" -Dhbmwire_DIR="$cmake_dir" && cmake --build "$work/consumer_c"
} >"$work/log" 2>&1; then
  cat "$work/log"
  fail "the consumer in C does not build"
fi
"$program" emulate --quiet --gaudi 1 -- "$work/consumer_c/consumer_c"
read -ra flags <<<"$(PKG_CONFIG_PATH=$pkgconfig_dir pkg-config --cflags --libs hbmwire_c)"
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror "$here/consumer_c/main.c" -o "$work/c_by_pkg_config" "${flags[@]}"
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libhbmwire_c.so)") \
  "$program" emulate --quiet --gaudi 1 -- "$work/c_by_pkg_config"
if ! {
  cmake -S "$here/../../c/examples" -B "$work/c_examples" -Dhbmwire_DIR="$cmake_dir" && cmake --build "$work/c_examples"
} >"$work/log" 2>&1; then
  cat "$work/log"
  fail "the examples in C do not build"
fi
"$here/../examples/between_nodes.sh" "$prefix/libexec/hbmwire/emulate" "$work/c_examples/put" "zero-copy"

step "the examples, as a project of their own"
if ! {
  cmake -S "$here/../../examples" -B "$work/examples" -DCMAKE_CXX_COMPILER="$compiler" -Dhbmwire_DIR="$cmake_dir" &&
    cmake --build "$work/examples"
} >"$work/log" 2>&1; then
  cat "$work/log"
  fail "the examples do not build"
fi
"$here/../examples/between_nodes.sh" "$prefix/libexec/hbmwire/emulate" "$work/examples/put" "zero-copy"

if [[ -n $python ]]; then
  step "the Python package"
  package=$(dirname "$(find "$prefix" -path '*-packages/hbmwire' -type d)")
  [[ $package == "$prefix"/lib*/python3*-packages ]] || fail "it lies in $package"
  (cd / && PYTHONPATH=$package "$python" -B -c '
import importlib.metadata, sys, hbmwire
assert hbmwire.__file__.startswith(sys.argv[1]), hbmwire.__file__
importlib.metadata.version("hbmwire")' "$package")
  readelf -d "$package"/hbmwire/_core*.so | grep -qF "[\$ORIGIN/" || fail "the module finds its library by no relative path"
  "$program" emulate --quiet --nics 1 --gaudi 1 -- env PYTHONPATH="$package" "$python" -B "$here/put.py"
fi

step "the program"
version=$("$program" --version)
[[ $version == *hbmwire* ]] || fail "--version says: $version"
"$program" emulate --quiet -- true

step "what it emulates is its own, installed one"
# shellcheck disable=SC2016  # expanded by the inner shell
devices=$("$program" emulate --quiet --nics 2 -- sh -c 'ls "$SYSFS_PATH/class/infiniband" | wc -l')
[[ $devices -eq 2 ]] || fail "emulate shows $devices NICs, not 2"
if command -v ibv_devinfo >/dev/null; then
  "$program" emulate --quiet --nics 1 -- ibv_devinfo -l | grep -q '1 HCA' || fail "ibv_devinfo finds no emulated NIC"
fi

step "the program alone, without the emulated hardware"
mkdir -p "$work/alone/bin"
cp "$program" "$work/alone/bin/"
result=0
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libhbmwire.so)") "$work/alone/bin/hbmwire" emulate -- true 2>"$work/log" ||
  result=$?
if [[ $result -ne 125 ]] || ! grep -q 'emulated hardware is not installed: there is no ' "$work/log"; then
  cat "$work/log"
  fail "hbmwire emulate ended with $result"
fi

step "the seeds' names"
for name in rdma_server rdma_client; do
  link=$prefix/libexec/hbmwire/$name
  [[ $(readlink -f "$link") == "$(readlink -f "$program")" ]] || fail "$link leads to $(readlink -f "$link")"
  help=$("$link" -h)
  [[ $help == *"-d"* ]] || fail "$name -h says: $help"
done

step "completion"
completion=$prefix/share/bash-completion/completions/hbmwire
[[ -f $completion ]] || fail "no completion for bash"
[[ -n $(find "$prefix/share/zsh" -name _hbmwire) ]] || fail "no completion for zsh"
offered=$(bash --norc --noprofile -c ". $completion; COMP_WORDS=($program perf wri) COMP_CWORD=2; _hbmwire hbmwire wri perf
  echo \"\${COMPREPLY[*]}\"")
[[ $offered == "write_bw write_lat" ]] || fail "bash offers for $program perf wri: $offered"

step "documents"
[[ -f $prefix/share/doc/hbmwire/LICENSE ]] || fail "no licence"
echo "all well"
