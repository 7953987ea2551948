# SPDX-License-Identifier: MIT
# Server and client with host memory over rxe, in one guest: all sent bytes arrive, and are compared.
. /lib.sh
rxe_alone
size=512K

start /tmp/server $hbmwire server -p 7000 --bind 127.0.0.1 -d rxe0 -m host -s $size
listens 20 /tmp/server
$hbmwire client 127.0.0.1 -p 7000 -d rxe0 -m host -s $size -n 2 || { cat /tmp/server; fail "the client gave $?"; }
cat /tmp/server
wait $server || fail "the server gave $?"

# A file.
mkdir /tmp/in
head -c 300001 /dev/urandom >/tmp/weights.bin
start /tmp/server $hbmwire server -p 7001 --bind 127.0.0.1 -d rxe0 -m host -s 64K --save /tmp/in
listens 20 /tmp/server
$hbmwire client 127.0.0.1 -p 7001 -d rxe0 -m host -s 64K --file /tmp/weights.bin || { cat /tmp/server; fail "no file sent: $?"; }
cmp /tmp/weights.bin /tmp/in/weights.bin || fail "the file arrived otherwise"
wait $server || { cat /tmp/server; fail "the server gave $?"; }

# With different sizes each side prints one sentence, also with a real network and NIC.
start /tmp/server $hbmwire server -p 7002 --bind 127.0.0.1 -d rxe0 -m host -s 8K
listens 20 /tmp/server
$hbmwire client 127.0.0.1 -p 7002 -d rxe0 -m host -s 4K >/tmp/client 2>&1 && fail "sizes that differ are taken"
grep -q 'the sizes differ' /tmp/client || { cat /tmp/client; fail "the client does not say that the sizes differ"; }
# The server continues until it is told to end.
kill $server
wait $server
[ $? = 143 ] || fail "the server's exit code is not that of SIGTERM"
