# SPDX-License-Identifier: MIT
# The doctor with the virtual Gaudi and a NIC that imports dma-bufs: first zero-copy, then without a path from the NIC to the
# card.
. /lib.sh
. /gaudi_lib.sh
rxe_alone
$hbmwire doctor --timeout 60 --memory gaudi >/tmp/report 2>/tmp/progress
code=$?
cat /tmp/progress /tmp/report
[ $code = 0 ] || [ $code = 4 ] || fail "the doctor gave $code"
used 0
echo 1 >/sys/module/virtual_gaudi/parameters/no_p2p
$hbmwire doctor --timeout 60 --memory gaudi >/tmp/report 2>&1
code=$?
echo "WITHOUT A WAY"
cat /tmp/report
[ $code = 1 ] || [ $code = 4 ] || fail "without a way the doctor gave $code"
used 0
