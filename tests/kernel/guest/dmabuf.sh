# SPDX-License-Identifier: MIT
# dma-bufs of the kernel's own exporters through the domain `dmabuf`. Arguments: the exporters of this kernel.
. /lib.sh
rxe_alone
for exporter in "$@"; do
  $BUILD/tests/kernel_dmabuf_test --gtest_color=no --gtest_filter="*/$exporter-*EmulatedNic*" || fail "$exporter"
  # The emulated NIC cannot access memory of a real exporter.
  $hbmwire emulate --quiet --gaudi 0 -- $BUILD/tests/kernel_dmabuf_test --gtest_color=no \
    --gtest_filter="*EmulatedNic*/$exporter" || fail "$exporter, emulated NIC"
done
# `hbmwire info` predicts that rxe refuses dma-bufs.
$hbmwire info -d | tee /tmp/info
grep -q 'rxe0 .*its driver imports no dma-bufs' /tmp/info || fail "info -d does not say that rxe imports none"
