# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by scripts that run a leading side, and a serving one in the background. Makes a folder
# for their worlds, $world. At exit it removes the folder and ends the serving side.
world=$(mktemp -d)
serving=
finish() {
  [[ -z $serving ]] || kill "$serving" 2>/dev/null || true
  wait
  rm -rf "$world"
}
trap finish EXIT

# begin_serving FIFO COMMAND...: starts a side that writes its ports into a new FIFO. COMMAND may be
# a function that ends in exec, so that the background process is the program itself.
begin_serving() {
  local ports=$1
  shift
  mkfifo "$ports"
  "$@" >"$ports" &
  serving=$!
}

# end_serving: waits for that side. With `set -e`, its failure is that of the script.
end_serving() {
  wait "$serving"
  serving=
}
