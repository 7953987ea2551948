#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: ranks.sh EXAMPLE
# Runs an example as four processes of a group, as torchrun does: each has to say that it has verified its bytes.
set -euo pipefail

example=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 HBMWIRE_LOG_LEVEL=error

# Another program may take the port before rank 0 does, so there are three tries, each with another port.
for ((i = 0; i < 3; ++i)); do
  MASTER_PORT=$((20000 + RANDOM % 10000))
  export MASTER_PORT
  ranks=()
  for rank in 0 1 2 3; do
    RANK=$rank "$example" >"$work/$rank" 2>&1 &
    ranks+=($!)
  done
  failed=0
  for rank in "${ranks[@]}"; do
    wait "$rank" || failed=1
  done
  ((failed == 0)) && break
  grep -q "in use" "$work"/* || break
done
cat "$work"/*
for rank in 0 1 2 3; do
  grep -qx "rank $rank of 4, by torchrun.*: verified" "$work/$rank" || { echo "FAILED: rank $rank"; exit 1; }
done
((failed == 0)) || exit 1
