#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: wheel_test.sh TREE BUILD_FOLDER PYTHON
# Makes the wheel of the Python package with pip, without a network, and uses it in an otherwise empty virtual environment. It
# is compiled in TREE/build/wheel-cp3N, and kept there.
set -euo pipefail

tree=$(realpath "$1")
build=$(realpath "$2")
python=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=yes
fi
export PIP_NO_INDEX=yes PIP_DISABLE_PIP_VERSION_CHECK=yes PIP_NO_CACHE_DIR=yes

step() { printf -- '-- %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
# make_wheel FOLDER PIP_OPTION...: makes the tree's wheel in the folder.
make_wheel() {
  "$work/maker/bin/pip" wheel --no-deps --wheel-dir "$@" "$tree" >"$work/log" 2>&1
}

step "a wheel, made with the packages of the system"
"$python" -m venv --system-site-packages "$work/maker"
make_wheel "$work/first" --no-build-isolation || { tail -n 40 "$work/log"; fail "pip makes no wheel"; }
wheel=$(echo "$work"/first/*.whl)

step "pip's isolation makes an equal one"
make_wheel "$work/second" || { tail -n 40 "$work/log"; fail "pip makes no wheel in isolation"; }
cmp "$wheel" "$work/second/$(basename "$wheel")" || fail "the second wheel is another one"

step "without CMake pip says what to install"
if PATH=/nonexistent make_wheel "$work/third" --no-build-isolation; then
  fail "pip made a wheel without CMake"
fi
grep -q 'there is no cmake: scripts/setup build' "$work/log" || { cat "$work/log"; fail "pip does not say what is missing"; }

step "an environment that has nothing else"
"$python" -m venv "$work/user"
"$work/user/bin/pip" install "$wheel" >"$work/log" 2>&1 || { cat "$work/log"; fail "pip does not install the wheel"; }
cd "$work"
bare() { env -i PATH=/usr/bin:/bin HOME=/nonexistent "$@"; }
bare "$work/user/bin/python" - "$tree" <<'END' || fail "the installed package is not whole"
import importlib.metadata
import pathlib
import re
import subprocess
import sys

import hbmwire

folder = pathlib.Path(hbmwire.__file__).parent
files = {path.name for path in folder.iterdir() if path.name != "__pycache__"}
sources = {path.name for path in pathlib.Path(sys.argv[1], "python/hbmwire").iterdir() if path.name != "__pycache__"}
module = pathlib.Path(hbmwire._core.__file__)
sources.add(module.name)
assert files == sources, files ^ sources
listed = {path.name for path in importlib.metadata.files("hbmwire") if path.parts[0] == "hbmwire" and path.suffix != ".pyc"}
assert files == listed, files ^ listed
needs = subprocess.run(["readelf", "-d", module], check=True, text=True, stdout=subprocess.PIPE).stdout
assert "libibverbs.so" in needs, "libibverbs is opened by its name"
assert "libhbmwire" not in needs, "the library is no part of the module"
assert not re.search("R(UN)?PATH", needs), needs
END
if grep -qF "$tree" "$work"/user/lib/python*/site-packages/hbmwire/_core*.so; then
  fail "the module names the tree that it was made of"
fi

step "bytes go between two memories of it"
"$build/bin/hbmwire" emulate --quiet --nics 1 --gaudi 1 -- "$work/user/bin/python" -B "$tree/tests/install/put.py"

step "nothing is left of it"
"$work/user/bin/pip" uninstall --yes hbmwire >"$work/log" 2>&1 || { cat "$work/log"; fail "pip does not remove it"; }
rest=$(find "$work/user" -name '*hbmwire*')
[[ -z $rest ]] || fail "files are left: $rest"
echo "all well"
