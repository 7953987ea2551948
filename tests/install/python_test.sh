#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: python_test.sh PROGRAM EXAMPLES [PYTHON]
# Tests the Python package as a user has it, on the hardware that PROGRAM, a `hbmwire`, emulates. Imports it, moves bytes, and
# runs each program in the folder EXAMPLES as two processes. PYTHON (/usr/bin/python3) finds the package by itself, or through
# PYTHONPATH.
set -euo pipefail

program=$1
examples=$2
python=${3:-/usr/bin/python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONDONTWRITEBYTECODE=yes

"$python" -c 'import hbmwire; print("hbmwire", hbmwire.__version__, "of", hbmwire.__file__)'
emulated() { "$program" emulate --quiet --nics 1 --gaudi 1 -- "$@"; }
emulated "$python" "$here/put.py"

# The folder's other files are modules that the programs share.
mapfile -t found < <(grep -l '__name__ == "__main__"' "$examples"/*.py)
if ((${#found[@]} == 0)); then
  echo "FAILED: there are no programs in $examples" >&2
  exit 1
fi
for example in "${found[@]}"; do
  printf -- '-- %s\n' "$(basename "$example")"
  options=()
  # Without --size it may move gigabytes.
  if [[ $("$python" "$example" --help) == *--size* ]]; then
    options=(--size 64M)
  fi
  emulated "$python" "$example" --demo "${options[@]}"
done
echo "all well"
