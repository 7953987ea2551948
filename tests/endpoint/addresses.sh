#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: addresses.sh EMULATE LISTENER_ADDRESSES
# Compares the addresses that a listener reports with those of a network made for this test, and
# connects to each.
set -euo pipefail

if [[ ${3:-} != inside ]]; then
  exec unshare --map-root-user --net "${BASH_SOURCE[0]}" "$1" "$2" inside
fi
emulate=$1
program=$2
failed=0

# expect HOSTS COUNT NICS WAY ADDRESS: a listener for WAY (tcp, rdma_cm) at ADDRESS reports HOSTS.
# The machine has COUNT NICs, of which the worker uses NICS (empty: the first that works).
expect() {
  local expected=$1 there=$2 of_worker=$3
  shift 3
  local said
  said=$(HBMWIRE_NICS=$of_worker "$emulate" --quiet --gaudi 0 --nics "$there" -- "$program" "$@" | xargs)
  [[ $said == "$expected" ]] && return
  echo "FAILED: $* with $there NICs, of which the worker has '$of_worker':"
  echo "  said:     $said"
  echo "  expected: $expected"
  failed=1
}

ip link set lo up
expect "127.0.0.1 [::1]" 0 "" tcp ""
expect "127.0.0.1 [::1]" 1 "" tcp ""
expect "rdma_cm://127.0.0.1 rdma_cm://[::1]" 1 "" rdma_cm ""

# The first interface belongs to emu0, the second to emu1.
for i in 1 3; do
  ip link add ve$i type veth peer name other$i
  # The kernel adds no link-local address of its own.
  ip link set other$i addrgenmode none up
  ip addr add 10.77.$i.2/24 dev ve$i
  ip addr add fd00:77:$i::2/64 dev ve$i nodad
  ip addr add 2001:db8:$i::2/64 dev ve$i nodad
  # Must not appear, as the next link-local address.
  ip addr add fe80::$i/64 dev ve$i nodad
done
ip addr add 169.254.7.7/16 dev ve1
ip addr add 10.77.1.3/24 dev ve1 label ve1:1
# Two interfaces that must not appear: one that is down, and one without a link.
ip link add ve7 type veth peer name other7
ip link set other7 addrgenmode none up
ip addr add 10.77.7.2/24 dev ve7
ip link add ve8 type veth peer name other8
ip addr add 10.77.8.2/24 dev ve8
ip link set ve8 up
ip link set ve1 up
ip link set ve3 up
of_1="10.77.1.2 10.77.1.3 [2001:db8:1::2] [fd00:77:1::2]"
of_3="10.77.3.2 [2001:db8:3::2] [fd00:77:3::2]"
expect "10.77.1.2 10.77.1.3 10.77.3.2 [2001:db8:1::2] [2001:db8:3::2] [fd00:77:1::2] [fd00:77:3::2]" 0 "" tcp ""
expect "$of_1 $of_3" 2 emu0 tcp ""
expect "$of_3 $of_1" 2 emu1 tcp ""
expect "10.77.3.2 10.77.1.2 10.77.1.3 [2001:db8:3::2] [2001:db8:1::2] [fd00:77:3::2] [fd00:77:1::2]" 2 emu1,emu0 tcp ""
expect "10.77.3.2 10.77.1.2 10.77.1.3" 2 emu1 tcp 0.0.0.0
expect "$of_3 $of_1" 2 emu1 tcp ::
expect "10.77.1.2" 2 emu1 tcp 10.77.1.2
expect "[fd00:77:1::2]" 2 emu1 tcp "[fd00:77:1::2]"
expect "rdma_cm://10.77.3.2 rdma_cm://[2001:db8:3::2] rdma_cm://[fd00:77:3::2]" 2 emu1 rdma_cm ""
expect "rdma_cm://10.77.3.2" 2 emu1 rdma_cm 10.77.3.2
exit $failed
