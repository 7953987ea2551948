# SPDX-License-Identifier: MIT
# The verbs conformance suite on rxe. Arguments: options of the suite.
. /lib.sh
rxe_alone
# 0.27 s: rxe under emulation answers later than 4 ms now and then, and would be taken for a peer that is gone.
exec $BUILD/tests/hbmwire_verbs_conformance --device rxe0 --ack-timeout 16 --as-rxe --gtest_color=no "$@"
