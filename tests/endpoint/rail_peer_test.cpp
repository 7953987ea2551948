// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <optional>

#include "emulation/tests/nic/under_plan.hpp"
#include "ipc_side.hpp"
#include "peer_side.hpp"

/// Two NICs, and a peer in another process that is killed or has only one NIC.
namespace hbmwire::test {
namespace {

constexpr auto kPeerTimeout = 400ms;
// Extra time for a busy machine.
constexpr auto kSlack = 1s;

class RailPeer : public ::testing::Test {
 protected:
  // Set before the peer is forked, so it counts for both processes.
  RailPeer() { ::setenv("HBMWIRE_NICS", "emu0,emu1", 1); }

  ~RailPeer() override {
    ::unsetenv("HBMWIRE_NICS");
    ::unsetenv("HBMWIRE_IPC_FROM");
  }
};

TEST_F(RailPeer, APutToAnotherProcessGoesByBothNics) {
  const PeerProcess peer;
  PeerSide side(peer, {.peer_timeout = kPeerTimeout});
  Transfer put = value(side.put(PeerProcess::kBytes));
  good(put.wait(20s));
  const TransferReport report = put.explain();
  ASSERT_EQ(report.rails.size(), 2U);
  EXPECT_NE(report.rails[1].bytes, 0U);
  EXPECT_EQ(report.rails[0].bytes + report.rails[1].bytes, PeerProcess::kBytes);
  // About one byte in 256 of the pattern is zero, so the put does not change it.
  EXPECT_GT(peer.changed_bytes(), PeerProcess::kBytes / 256 * 254);
}

TEST_F(RailPeer, APeerWithOneNicTakesOneRail) {
  const PeerProcess peer({.nic = "emu0"});
  PeerSide side(peer, {.peer_timeout = kPeerTimeout});
  Transfer put = value(side.put(PeerProcess::kBytes));
  good(put.wait(20s));
  EXPECT_TRUE(put.explain().rails.empty());
}

TEST_F(RailPeer, ALimitOfUnlimitedMeansOneNic) {
  ::setenv("HBMWIRE_RAILS_FROM", "unlimited", 1);
  const PeerProcess peer;
  PeerSide side(peer, {.peer_timeout = kPeerTimeout});
  ::unsetenv("HBMWIRE_RAILS_FROM");
  Transfer put = value(side.put(PeerProcess::kBytes));
  good(put.wait(20s));
  EXPECT_TRUE(put.explain().rails.empty());
}

/// The peer's policy forbids its GPU to open memory: the peer refuses the first request by IPC, and
/// gets no further ones.
TEST_F(RailPeer, BothNicsCarryTransfersThatIpcRefuses) {
  ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
  PeerProcess::Options options{.type = MemoryType::cuda};
  options.paths.allow = {Path::host, Path::zero_copy, Path::staged};
  const PeerProcess peer(options);
  IpcSide side(peer, MemoryType::cuda, "");
  const auto sent = side.contents();
  const auto expect_by_both = [&](Transfer transfer) {
    good(transfer.wait(within(20s)));
    EXPECT_EQ(transfer.path(), Path::nic_loopback);
    const TransferReport report = transfer.explain();
    EXPECT_TRUE(report.ipc.refusal);
    ASSERT_EQ(report.rails.size(), 2U);
    EXPECT_NE(report.rails[0].bytes, 0U);
    EXPECT_NE(report.rails[1].bytes, 0U);
    EXPECT_EQ(report.rails[0].bytes + report.rails[1].bytes, PeerProcess::kBytes);
  };
  expect_by_both(side.put());
  side.fill(77);
  expect_by_both(side.get());
  EXPECT_TRUE(same_bytes(side.contents(), sent));
  EXPECT_EQ(internals::look_at_endpoint(side.worker).copies_asked, 1U);
}

TEST_F(RailPeer, APeerKilledWithPiecesUnderWayFailsThemInTime) {
  if (!under_plan("delay,op=write,nth=1,count=8,ms=10000")) return;
  PeerProcess peer;
  PeerSide side(peer, {.peer_timeout = kPeerTimeout});
  Transfer put = value(side.put(PeerProcess::kBytes));
  EXPECT_FALSE(value(put.poll()));
  peer.kill();
  const auto begun = std::chrono::steady_clock::now();
  const auto over = put.wait(20s);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 2 * kPeerTimeout + kSlack);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
}

}  // namespace
}  // namespace hbmwire::test
