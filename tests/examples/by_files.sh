#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: by_files.sh EMULATE EXAMPLE
# Runs an example's two sides on two emulated nodes, each with the names of two files: its own, and the other side's. Both
# must succeed and say "verified".
set -euo pipefail

emulate=$1
example=$2
world=$(mktemp -d)
other=
finish() {
  [[ -z $other ]] || kill "$other" 2>/dev/null || true
  wait
  rm -rf "$world"
}
trap finish EXIT

# Called in subshells, so that what is in the background is the program itself.
side() {
  local name=$1
  shift
  exec "$emulate" --quiet --dir "$world" --fabric examples --name "$name" -- "$example" "$@"
}

(side b "$world/b.bytes" "$world/a.bytes") >"$world/said.b" &
other=$!
(side a "$world/a.bytes" "$world/b.bytes") >"$world/said.a"
wait "$other"
other=
for name in a b; do
  grep -q '^verified' "$world/said.$name" || { echo "FAILED: nothing was verified at $name"; exit 1; }
done
