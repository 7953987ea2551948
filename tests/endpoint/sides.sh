# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by who runs a leading side, and a serving one in the background: a folder for their worlds, in $world. It goes at
# the end, and so does the serving side.
world=$(mktemp -d)
serving=
finish() {
  [[ -z $serving ]] || kill "$serving" 2>/dev/null || true
  wait
  rm -rf "$world"
}
trap finish EXIT

# begin_serving FIFO COMMAND...: a side that says its ports into a new FIFO. COMMAND may be a function that ends in exec, so that
# what is in the background is the program itself.
begin_serving() {
  local ports=$1
  shift
  mkfifo "$ports"
  "$@" >"$ports" &
  serving=$!
}

# end_serving: waits for that side. Below `set -e` its failure is the script's.
end_serving() {
  wait "$serving"
  serving=
}
