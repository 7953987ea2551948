# SPDX-License-Identifier: MIT
# Server and client with two cards of one guest.
. /lib.sh
. /gaudi_lib.sh
rxe_alone
serve server 7000 --bind 127.0.0.1 --card 1 -s 100001
$hbmwire client 127.0.0.1 -p 7000 -d rxe0 -m gaudi --card 0 -s 100001 -n 2 ||
  { cat /tmp/server; fail "the client gave $?"; }
cat /tmp/server
wait $server || fail "the server gave $?"
used 0
used 1

# With verbs and with the endpoint API: tests that wait for bytes in a card, and tests in which the receiver's NIC reads them.
for line in 'write_bw -s 4096' 'read_lat -s 64' 'send_bw -s 4096' 'put_bw -s 4096' 'get_lat -s 64' 'tag_bw -s 16384'; do
  measure $line --memory gaudi:0,gaudi:1
  grep -q 'Path there .*zero-copy dma-buf' /tmp/client || fail "$line: not by the dma-buf"
done
used 0
used 1

# A card has only one owner at a time.
serve server 7001 --bind 127.0.0.1 --card 1 -s 64K
$hbmwire client 127.0.0.1 -p 7001 -d rxe0 -m gaudi --card 1 -s 64K >/tmp/client 2>&1 && fail "a card has two owners"
grep -q 'EBUSY' /tmp/client || { cat /tmp/client; fail "the client does not say that the card is taken"; }
# A killed server leaves nothing behind, and its card is free again.
kill -9 $server
wait $server
used 1

# Without a path from the NIC to the card, both sides say so.
echo 1 >/sys/module/virtual_gaudi/parameters/no_p2p
$hbmwire server -p 7002 -d rxe0 -m gaudi -s 64K >/tmp/server 2>&1 && fail "registered without a way"
cat /tmp/server
grep -q 'EPERM' /tmp/server || fail "no EPERM"
grep -q 'CONFIG_PCI_P2PDMA' /tmp/server || fail "the server does not say what to do"
echo 0 >/sys/module/virtual_gaudi/parameters/no_p2p
used 0
