# SPDX-License-Identifier: MIT
# The doctor with an unmodified kernel's rxe, which imports no dma-bufs. It tries and verifies host memory, and the facts come
# from the real kernel.
. /lib.sh
rxe_alone
$hbmwire doctor --timeout 60 >/tmp/report 2>/tmp/progress
code=$?
cat /tmp/progress /tmp/report
# 4: the CPU acts as the NIC, which is slow.
[ $code = 0 ] || [ $code = 4 ] || fail "the doctor gave $code"
$hbmwire doctor --quick --json >/tmp/facts || [ $? = 4 ] || fail "--quick gave $?"
echo FACTS
cat /tmp/facts
echo END OF FACTS
$hbmwire doctor --quick --save /tmp/saved >/tmp/quick
$hbmwire doctor --replay /tmp/saved >/tmp/replayed
cmp /tmp/quick /tmp/replayed || fail "a replay gives another report"

# A port that is down.
ip link set alone0 down
$hbmwire doctor --timeout 60 >/tmp/report 2>&1
code=$?
cat /tmp/report
[ $code = 1 ] || fail "with its port down the doctor gave $code"
grep -q '\[port\] rxe0' /tmp/report || fail "the port is not named"
