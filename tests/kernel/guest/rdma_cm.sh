# SPDX-License-Identifier: MIT
# rdma_cm, with Debian's rping over rxe: connect, READ, WRITE, SEND, and contents that rping compares (-V).
. /lib.sh
rxe_alone
rping -s -v -V -C 5 -a 10.1.0.1 >/tmp/server 2>&1 &
server=$!
# rping prints nothing when it listens.
attempts=0
until timeout 30 rping -c -v -V -C 5 -a 10.1.0.1 >/tmp/client 2>&1; rping_well $? /tmp/client 5; do
  attempts=$((attempts + 1))
  [ $attempts -lt 5 ] || { cat /tmp/server; fail "rping's client"; }
  kill -0 $server || { cat /tmp/server; fail "rping's server is gone"; }
  sleep 0.3
done
wait $server
rping_well $? /tmp/server 5 || fail "rping's server"
