# SPDX-License-Identifier: MIT
# Two guests on one wire. Arguments: listen or connect.
. /lib.sh
role=$1
interface=$(ls /sys/class/net | grep -v -E '^(lo|dummy.*)$' | head -n 1)
[ -n "$interface" ] || fail "no interface for the wire"
ours=10.9.0.2
[ "$role" = listen ] && ours=10.9.0.1
rxe_over "$interface" $ours

if [ "$role" = listen ]; then
  rping -s -v -V -C 3 -a $ours >/tmp/rping 2>&1 &
  rping=$!
  $hbmwire server -p 7000 -d rxe0 -m host -s 256K >/tmp/server 2>&1 &
  server=$!
  listens 30 /tmp/server
  # Signals that everything is ready, and later waits until the other guest is done.
  nc -l -p 7100 </dev/null >/dev/null
  nc -l -p 7101 >/tmp/done </dev/null
  cat /tmp/server
  grep -q done /tmp/done || fail "the other guest is not done"
  wait $rping
  rping_well $? /tmp/rping 3 || fail "rping's server"
  wait $server || fail "the server gave $?"
  # The bytes went through this NIC: 256 KiB each way, in packets of at most 1 KiB.
  cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts
  [ "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)" -gt 256 ] || fail "rxe0 has counted no packets"
else
  wait_until 60 nc -w 2 10.9.0.1 7100 </dev/null || fail "the other guest does not answer"
  $hbmwire client 10.9.0.1 -p 7000 -d rxe0 -m host -s 256K -n 2 || fail "the client gave $?"
  timeout 30 rping -c -v -V -C 3 -a 10.9.0.1 >/tmp/rping 2>&1
  rping_well $? /tmp/rping 3 || fail "rping's client"
  wait_until 20 sh -c 'echo done | nc -w 2 10.9.0.1 7101' || fail "the other guest does not hear"
fi
exit 0
