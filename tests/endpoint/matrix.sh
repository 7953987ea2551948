#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: matrix.sh EMULATE ENDPOINT_MATRIX pairs|all threads|processes|nodes
# Runs the rows of the transfer matrix that belong to a place, with each end where the place says.
# HBMWIRE_TEST_PEER may name another program for the serving end.
set -euo pipefail

emulate=$1
matrix=$2
which=$3
place=$4
hardware=(--nics 2 --gaudi 2 --cuda 1 --rocm 1)

if [[ $place == threads ]]; then
  exec "$emulate" --quiet "${hardware[@]}" -- "$matrix" lead "$which" threads
fi

# shellcheck source=tests/endpoint/sides.sh
source "$(dirname "${BASH_SOURCE[0]}")/sides.sh"

# Both ends on one node have the same name. Called in subshells.
emulate() {
  local name=$1
  shift
  exec "$emulate" --quiet --dir "$world" --fabric matrix --name "$name" "${hardware[@]}" -- "$@"
}
other=a
[[ $place == processes ]] || other=b

begin_serving "$world/port" emulate "$other" "${HBMWIRE_TEST_PEER:-$matrix}" serve
read -r port <"$world/port"
(emulate a "$matrix" lead "$which" "$place" "$port")
end_serving
