# SPDX-License-Identifier: MIT
# From Gaudi to Gaudi between two guests. Arguments: listen or connect. The host compares the cards' memory afterwards.
. /lib.sh
. /gaudi_lib.sh
role=$1
interface=$(ls /sys/class/net | grep -v -E '^(lo|dummy.*)$' | head -n 1)
[ -n "$interface" ] || fail "no interface for the wire"
ours=10.9.0.2
[ "$role" = listen ] && ours=10.9.0.1
rxe_over "$interface" $ours
is_ready() { nc -w 2 10.9.0.1 "$1" </dev/null 2>/dev/null; }

if [ "$role" = listen ]; then
  mkdir /tmp/in
  $BUILD/tests/kernel_gaudi_peer listen $ours || fail "the peer gave $?"
  used 0
  # Signals twice that everything is ready, and later waits until the other guest is done. The steps run one after the other,
  # because a card has one owner.
  serve files 7000 -s 256K --save /tmp/in
  nc -l -p 7100 </dev/null >/dev/null
  wait $server || { cat /tmp/files; fail "the server for files gave $?"; }
  serve server 7001 -s 64K
  nc -l -p 7101 </dev/null >/dev/null
  wait $server || { cat /tmp/server; fail "the server gave $?"; }
  nc -l -p 7102 >/tmp/done </dev/null
  cat /tmp/files /tmp/server
  grep -q done /tmp/done || fail "the other guest is not done"
  cmp /weights.bin /tmp/in/weights.bin || fail "the file arrived otherwise"
  grep -q 'Zero-copy RDMA using Gaudi DMA-buf' /tmp/server || fail "it was not zero copy"
else
  # Continues when the other guest listens, which takes a while.
  attempts=0
  until $BUILD/tests/kernel_gaudi_peer connect 10.9.0.1; do
    attempts=$((attempts + 1))
    [ $attempts -lt 10 ] || fail "the peer"
    sleep 1
  done
  wait_until 60 is_ready 7100 || fail "the other guest does not answer"
  $hbmwire client 10.9.0.1 -p 7000 -d rxe0 -m gaudi -s 256K --file /weights.bin || fail "no file sent: $?"
  wait_until 60 is_ready 7101 || fail "the other guest does not answer any more"
  $hbmwire client 10.9.0.1 -p 7001 -d rxe0 -m gaudi -s 64K -n 2 || fail "the client gave $?"
  wait_until 20 sh -c 'echo done | nc -w 2 10.9.0.1 7102' || fail "the other guest does not hear"
fi
used 0
