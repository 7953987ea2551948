# SPDX-License-Identifier: MIT
# `hbmwire emulate` on a machine with a real RDMA device: a command below it sees only the emulated ones.
. /lib.sh
rxe_alone
ibv_devices | grep -q rxe0 || fail "no rxe0 outside"
$hbmwire emulate --quiet --nics 2 --gaudi 1 -- ibv_devices >/tmp/devices || fail "emulate gave $?"
cat /tmp/devices
[ "$(grep -c emu /tmp/devices)" = 2 ] || fail "the emulated devices are not there"
grep -q rxe /tmp/devices && fail "the real device is seen in the emulated world"
$hbmwire emulate --quiet --nics 1 --gaudi 1 -- $hbmwire info -d >/tmp/info || fail "info gave $?"
cat /tmp/info
grep -q 'emu0 .*imports dma-bufs' /tmp/info || fail "info does not find the emulated NIC"

# An exchange from Gaudi to Gaudi in the emulation, while the machine's rxe0 is up.
start /tmp/server $hbmwire emulate --quiet --fabric lab --gaudi 1 --name a -- $hbmwire server -p 7000 --bind 127.0.0.1 \
  -m gaudi -s 64K
listens 40 /tmp/server
$hbmwire emulate --quiet --fabric lab --gaudi 1 --name b -- $hbmwire client 127.0.0.1 -p 7000 -m gaudi -s 64K ||
  { cat /tmp/server; fail "the client gave $?"; }
wait $server || { cat /tmp/server; fail "the server gave $?"; }

# Outside, everything is unchanged.
ibv_devices | grep -q rxe0 || fail "rxe0 went away"
ibv_devices | grep -q emu && fail "an emulated device is seen outside"
exit 0
