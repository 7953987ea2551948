// SPDX-License-Identifier: MIT
// Counters of a program that does not know about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulation/tests/emulate/world_fixture.hpp"

namespace hbmwire::emulate_test {
namespace {

TEST_F(ViewedWorld, CountsTheTransfersOfPerftest) {
  // 1000 writes of 64 KiB, 16 packets each. The counters of data are in units of 4 bytes.
  const auto seen = shell({"--nics", "2", "--gaudi", "0"}, R"(
    run="ib_write_bw -x 3 -m 4096 -s 65536 -n 1000 -F"
    $run -d emu1 > /dev/null & sleep 0.5; $run -d emu0 127.0.0.1 > /dev/null || exit 1; wait
    cd /sys/class/infiniband
    cat emu0/ports/1/counters/port_xmit_data emu0/ports/1/counters/port_xmit_packets
    cat emu1/ports/1/counters/port_rcv_data emu1/ports/1/counters/port_rcv_packets
    cat emu1/ports/1/hw_counters/rx_write_requests emu1/ports/1/counters/port_xmit_packets)");
  EXPECT_EQ(seen.exit_code, 0) << seen.err;
  EXPECT_EQ(seen.out, "16384000\n16000\n16384000\n16000\n1000\n0\n");
}

}  // namespace
}  // namespace hbmwire::emulate_test
