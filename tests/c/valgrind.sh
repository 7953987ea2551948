#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: valgrind.sh EMULATE EXAMPLE PROOF
# Runs both sides of an example under valgrind, which may find nothing wrong. Exit code 77: valgrind is not installed.
set -euo pipefail

if ! command -v valgrind >/dev/null; then
  echo "Skipped"
  echo "valgrind is not installed"
  exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Its threads run one at a time, so that one that waits by looking again and again has to give way. A Gaudi's memory does not
# fit into the address space that it leaves.
printf '#!/bin/sh\nexec "%s" --gaudi 0 "$@"\n' "$1" >"$work/emulate"
# No look for leaks, which reads all that is mapped, and the emulated NICs have mapped gigabytes: AddressSanitizer does that.
options="--quiet --fair-sched=yes --error-exitcode=9 --leak-check=no"
printf '#!/bin/sh\nexec valgrind %s "%s" "$@"\n' "$options" "$2" >"$work/example"
chmod +x "$work/emulate" "$work/example"
"$here/../examples/between_nodes.sh" "$work/emulate" "$work/example" "$3"
