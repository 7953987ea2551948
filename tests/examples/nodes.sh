# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# To be sourced: emulated nodes for an example's two sides. Needs the path of `emulate` in $emulate.

# shellcheck source=tests/endpoint/sides.sh
source "$(dirname "${BASH_SOURCE[0]}")/../endpoint/sides.sh"

# on_node NAME COMMAND...: called in subshells, so that the background process is the program itself.
on_node() {
  local name=$1
  shift
  exec "$emulate" --quiet --dir "$world" --fabric examples --name "$name" -- "$@"
}
