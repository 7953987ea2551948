# SPDX-License-Identifier: MIT
# The virtual Gaudi through its driver's calls and through the library, in one guest. The first test reads bytes that the host
# put into the card's memory. The last one leaves bytes that the host compares.
. /lib.sh
. /gaudi_lib.sh
rxe_alone
$hbmwire info -d | tee /tmp/info
grep -q 'the driver habanalabs, without libhl-thunk.so' /tmp/info || fail "info -d does not say what drives the card"
grep -q 'rxe0 .*imports dma-bufs' /tmp/info || fail "info -d does not say that rxe0 imports dma-bufs"
first=KernelGaudi.ReadsBytesThatTheHostPutIntoItsMemory
last=KernelGaudi.WritesBytesThatTheHostSees
for filter in $first "*-$first:$last" $last; do
  $BUILD/tests/kernel_gaudi_test --gtest_color=no --gtest_filter="$filter" || fail "$filter"
done
used 0

# The real card with an emulated NIC, which cannot access its memory. Without the preload, ibv_reg_dmabuf_mr is that of
# libibverbs.
unset LD_PRELOAD
keep="$hbmwire emulate --keep gaudi --nics 1"
$keep -- $hbmwire info -d >/tmp/info 2>/tmp/words || { cat /tmp/words; fail "info below --keep gave $?"; }
cat /tmp/words /tmp/info
grep -q "1 NIC (emu0), beside the machine's own Gaudi cards" /tmp/words || fail "emulate does not say what it keeps"
grep -q 'the driver habanalabs, without libhl-thunk.so' /tmp/info || fail "the real card is not there below --keep"
grep -q 'emu0 ' /tmp/info || fail "no emulated NIC beside the card"
grep -q rxe0 /tmp/info && fail "the real NIC is there below --keep"
$keep -- $hbmwire server -p 7001 -d emu0 -m gaudi -s 64K >/tmp/server 2>&1 && fail "the emulated NIC imports a real dma-buf"
cat /tmp/server
grep -q 'EOPNOTSUPP' /tmp/server || fail "no EOPNOTSUPP from the emulated NIC"
# Without --keep the card is hidden, and the emulated one is visible.
$hbmwire emulate --quiet --nics 1 --gaudi 1 -- $hbmwire info -d >/tmp/info || fail "info below emulate gave $?"
grep -q 'without libhl-thunk.so' /tmp/info && fail "the real card is there without --keep"
used 0
