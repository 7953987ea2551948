# SPDX-License-Identifier: MIT
# The virtual Gaudi by its driver's calls and through the library, in one guest. The first test sees what the host has put
# into the card's memory, the last leaves what the host compares.
. /lib.sh
. /gaudi_lib.sh
rxe_alone
$hbmwire info -d | tee /tmp/info
grep -q 'the driver habanalabs, without libhl-thunk.so' /tmp/info || fail "info -d does not say what drives the card"
grep -q 'rxe0 .*imports dma-bufs' /tmp/info || fail "info -d does not say that rxe0 imports dma-bufs"
first=KernelGaudi.ReadsWhatTheHostHasPutIntoItsMemory
last=KernelGaudi.WritesWhatTheHostSees
for filter in $first "*-$first:$last" $last; do
  $BUILD/tests/kernel_gaudi_test --gtest_color=no --gtest_filter="$filter" || fail "$filter"
done
used 0
