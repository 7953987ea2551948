# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# To be sourced: emulated nodes for an example's two sides, below $world, which goes at the end, and with it the side in the
# background whose process id is in $other. Wants the path of `emulate` in $emulate.

world=$(mktemp -d)
other=
finish() {
  [[ -z $other ]] || kill "$other" 2>/dev/null || true
  wait
  rm -rf "$world"
}
trap finish EXIT

# on_node NAME COMMAND...: called in subshells, so that what is in the background is the program itself.
on_node() {
  local name=$1
  shift
  exec "$emulate" --quiet --dir "$world" --fabric examples --name "$name" -- "$@"
}
