#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: matrix.sh HBMWIRE ENDPOINT_MATRIX pairs|all threads|processes|nodes
# Runs the rows of the transfer matrix that belong to a place, each end where the place says.
set -euo pipefail

hbmwire=$1
matrix=$2
which=$3
place=$4
hardware=(--nics 2 --gaudi 2 --cuda 1 --rocm 1)

if [[ $place == threads ]]; then
  exec "$hbmwire" emulate --quiet "${hardware[@]}" -- "$matrix" lead "$which" threads
fi

world=$(mktemp -d)
serving=
finish() {
  [[ -z $serving ]] || kill "$serving" 2>/dev/null || true
  wait
  rm -rf "$world"
}
trap finish EXIT

# Ends of one node have the same name. Called in subshells, so that what is in the background is the program itself.
emulate() {
  local name=$1
  shift
  exec "$hbmwire" emulate --quiet --dir "$world" --fabric matrix --name "$name" "${hardware[@]}" -- "$@"
}
other=a
[[ $place == processes ]] || other=b

mkfifo "$world/port"
emulate "$other" "$matrix" serve >"$world/port" &
serving=$!
read -r port <"$world/port"
(emulate a "$matrix" lead "$which" "$place" "$port")
wait "$serving"
serving=
