#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: compiles.sh COMPILER TREE LIBRARY SANITIZERS
# Compiles hbmwire.h and the examples as C11 without a warning, and runs the test of the header. -Wpadded makes a hole in a
# structure an error. The header also compiles as C++. Exit code 77: the compiler is missing.
set -euo pipefail

compiler=$1
tree=$2
library=$3
sanitizers=$4
if [[ -z $compiler || $compiler == *NOTFOUND ]]; then
  echo "Skipped"
  echo "no such C compiler is installed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c11 -Wall -Wextra -Wpedantic -Werror "-I$tree/c/include")

"$compiler" "${flags[@]}" -Wpadded -c "$tree/tests/c/header_test.c" -o "$work/header_test.o"
for example in "$tree"/c/examples/*.c; do
  "$compiler" "${flags[@]}" -c "$example" -o "$work/example.o"
done
echo '#include "hbmwire.h"' >"$work/header.cpp"
"$compiler" -std=c++11 -Wall -Wextra -Wpedantic -Werror "-I$tree/c/include" -c "$work/header.cpp" -o "$work/header.o"
if [[ -n $sanitizers ]]; then
  exit 0 # the library needs the run-time library of the compiler that built it
fi
"$compiler" "$work/header_test.o" -o "$work/header_test" "$library" "-Wl,-rpath,$(dirname "$library")"
"$work/header_test"
