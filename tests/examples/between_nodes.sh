#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: between_nodes.sh EMULATE EXAMPLE PROOF [by-nic]
# Runs an example's two sides on two emulated nodes. Both must succeed. Together they must print "verified", and the path that
# matches the extended regular expression PROOF. With "by-nic", one side gets the address of the other node's NIC.
set -euo pipefail

emulate=$1
example=$2
proof=$3
by_nic=${4:-}
# shellcheck source=tests/examples/nodes.sh
source "$(dirname "${BASH_SOURCE[0]}")/nodes.sh"

host=127.0.0.1
if [[ -n $by_nic ]]; then
  # The NIC's fourth GID is an IPv4 address, ::ffff:a.b.c.d, in hexadecimal.
  # shellcheck disable=SC2016 # it is the node's variable
  gid=$(on_node b sh -c 'cat "$SYSFS_PATH/class/infiniband/emu0/ports/1/gids/3"')
  digits=${gid//:/}
  host=$(printf '%d.%d.%d.%d' "0x${digits:24:2}" "0x${digits:26:2}" "0x${digits:28:2}" "0x${digits:30:2}")
fi

on_node b "$example" listen 0 >"$world/listening" &
serving=$!
# The first line is the port.
for ((i = 0; i < 200; ++i)); do
  [[ $(wc -l <"$world/listening") -ge 1 ]] && break
  kill -0 "$serving" || exit 1
  sleep 0.1
done
port=$(head -n 1 "$world/listening")
(on_node a "$example" "$host:$port") | tee "$world/connecting"
end_serving
cat "$world/listening"

said=$(cat "$world/connecting" "$world/listening")
grep -q '^verified' <<<"$said" || { echo "FAILED: nothing was verified"; exit 1; }
grep -qE "$proof" <<<"$said" || { echo "FAILED: no proof of the path: $proof"; exit 1; }
