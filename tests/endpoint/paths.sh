#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: paths.sh EMULATE ENDPOINT_PATHS TABLE process|node|nodes
# Compares the paths that transfers take with the table, with each end where the place says. emu0
# and emu2 import dma-bufs, emu1 does not. HBMWIRE_TEST_PEER may name another program for the
# serving end.
set -euo pipefail

emulate=$1
paths=$2
table=$3
place=$4
# SynapseAI has one card per process, but both ends of one process need one. hl-thunk has no engine
# that copies. The limits are low enough for these transfers to use two NICs, and a peer's engine.
export HBMWIRE_RAILS_FROM=64K HBMWIRE_IPC_FROM=64K
[[ $place != process ]] || export HBMWIRE_GAUDI_OWNER=hl-thunk
# shellcheck source=tests/endpoint/sides.sh
source "$(dirname "${BASH_SOURCE[0]}")/sides.sh"

# Called in subshells. Each run gets its own fabric: nodes with other hardware than before must be
# set up again.
emulate() {
  local fabric=$1 name=$2 nics=$3
  shift 3
  local hardware=(--nics 3 --without emu1=dmabuf)
  [[ $nics == nics ]] || hardware=(--nics 0)
  exec "$emulate" --quiet --dir "$world" --fabric "$fabric" --name "$name" "${hardware[@]}" \
    --gaudi 2 --cuda 1 --rocm 1 -- "$@"
}

run() {
  local fabric=$1 here=$2 there=$3
  if [[ $place == process ]]; then
    (emulate "$fabric" a "$here" "$paths" lead "$table" "$place" "$here" "$there")
    return
  fi
  local other=a
  [[ $place == node ]] || other=b
  begin_serving "$world/ports-$fabric" emulate "$fabric" "$other" "$there" "${HBMWIRE_TEST_PEER:-$paths}" serve "$here" "$there"
  (emulate "$fabric" a "$here" "$paths" lead "$table" "$place" "$here" "$there") <"$world/ports-$fabric"
  end_serving
}

run with nics nics
run without none none
if [[ $place == nodes ]]; then
  run without-here none nics
  run without-there nics none
fi
