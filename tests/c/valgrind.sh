#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: valgrind.sh EMULATE EXAMPLE PROOF
# Runs both sides of an example under valgrind, which must find no error. Exit code 77: valgrind is not installed.
set -euo pipefail

if ! command -v valgrind >/dev/null; then
  echo "Skipped"
  echo "valgrind is not installed"
  exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# valgrind runs threads one at a time, so a polling thread must yield. A Gaudi's memory does not fit into the address
# space that it leaves.
printf '#!/bin/sh\nexec "%s" --gaudi 0 "$@"\n' "$1" >"$work/emulate"
# Leaks are not checked: that would read all mapped memory, and the emulated NICs have mapped gigabytes. AddressSanitizer
# checks them.
options="--quiet --fair-sched=yes --error-exitcode=9 --leak-check=no"
printf '#!/bin/sh\nexec valgrind %s "%s" "$@"\n' "$options" "$2" >"$work/example"
chmod +x "$work/emulate" "$work/example"
"$here/../examples/between_nodes.sh" "$work/emulate" "$work/example" "$3"
