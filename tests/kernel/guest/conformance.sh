# SPDX-License-Identifier: MIT
# The verbs conformance suite on rxe. Arguments: options of the suite.
. /lib.sh
rxe_alone
# 0.27 s: rxe under emulation sometimes answers later than 4 ms, and the peer would be taken for dead.
exec $BUILD/tests/hbmwire_verbs_conformance --device rxe0 --ack-timeout 16 --as-rxe --gtest_color=no "$@"
