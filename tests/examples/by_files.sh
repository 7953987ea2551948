#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: by_files.sh EMULATE EXAMPLE
# Runs an example's two sides on two emulated nodes. Each gets the names of two files, its own and the other side's. Both must
# succeed and print "verified".
set -euo pipefail

emulate=$1
example=$2
# shellcheck source=tests/examples/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"

(on_node b "$example" "$world/b.bytes" "$world/a.bytes") >"$world/said.b" &
serving=$!
(on_node a "$example" "$world/a.bytes" "$world/b.bytes") >"$world/said.a"
end_serving
for name in a b; do
  grep -q '^verified' "$world/said.$name" || { echo "FAILED: nothing was verified at $name"; exit 1; }
done
