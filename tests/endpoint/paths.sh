#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: paths.sh EMULATE ENDPOINT_PATHS TABLE process|node|nodes
# Compares the paths that are taken with the table, each end where the place says. emu0 and emu2 import dma-bufs, emu1 does not.
# HBMWIRE_TEST_PEER names the serving end's program if it is another one.
set -euo pipefail

emulate=$1
paths=$2
table=$3
place=$4
# SynapseAI has one card a process, and both ends of one process want one. hl-thunk has no engine that copies.
# Transfers here are large enough for two NICs, and for a peer's engine.
export HBMWIRE_RAILS_FROM=64K HBMWIRE_IPC_FROM=64K
[[ $place != process ]] || export HBMWIRE_GAUDI_OWNER=hl-thunk
# shellcheck source=tests/endpoint/sides.sh
source "$(dirname "${BASH_SOURCE[0]}")/sides.sh"

# Called in subshells. A fabric for each run: nodes that have other hardware than before have to be set up anew.
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
