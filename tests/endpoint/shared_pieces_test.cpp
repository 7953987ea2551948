// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include "hbmwire/log.hpp"

#include "ipc_side.hpp"

/// Device memory of two processes of a node that no NIC reaches, and no engine of the peer's opens:
/// through host memory that both have mapped. emu1 imports no dma-bufs; "none" is TCP.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = PeerProcess::kBytes;
constexpr std::uint64_t kSmall = 4096;  // goes over TCP where there is no NIC

const PathPolicy kNoIpc{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::copy, Path::tcp}};

/// The other one's type is the next one's, so that no engine knows both.
struct Pair {
  MemoryType here;
  MemoryType there;
  const char* nic;
};

class SharedPieces : public ::testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }

  [[nodiscard]] static PeerProcess::Options options() {
    return {.type = GetParam().there, .nic = GetParam().nic};
  }

  [[nodiscard]] static IpcSide side_of(const PeerProcess& peer) {
    return IpcSide(peer, GetParam().here, GetParam().nic, kNoIpc);
  }

  [[nodiscard]] static bool over_tcp() { return std::string_view(GetParam().nic) == "none"; }
};

INSTANTIATE_TEST_SUITE_P(All, SharedPieces,
                         ::testing::Values(Pair{MemoryType::gaudi, MemoryType::cuda, "emu1"},
                                           Pair{MemoryType::cuda, MemoryType::rocm, "emu1"},
                                           Pair{MemoryType::cuda, MemoryType::cuda, "emu1"},
                                           Pair{MemoryType::rocm, MemoryType::gaudi, "none"},
                                           Pair{MemoryType::gaudi, MemoryType::cuda, "none"},
                                           Pair{MemoryType::cuda, MemoryType::cuda, "none"}),
                         [](const auto& pair) {
                           return std::string(to_string(pair.param.here)) + "_" +
                                  std::string(to_string(pair.param.there)) + "_" + pair.param.nic;
                         });

TEST_P(SharedPieces, BytesGoThereAndBack) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  auto expected = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::staged) << describe(put.explain());
  EXPECT_EQ(put.explain().protocol, Protocol::served);
  side.fill(5);
  const auto newer = side.contents();
  constexpr std::uint64_t kAt = 12345;
  constexpr std::uint64_t kLength = kBytes - 2 * kAt;
  good(side.put(kAt, kLength).wait(within(10s)));
  std::copy_n(newer.begin() + kAt, kLength, expected.begin() + kAt);
  side.fill(6);
  Transfer get = side.get();
  good(get.wait(within(10s)));
  EXPECT_EQ(get.path(), Path::staged);
  EXPECT_TRUE(same_bytes(side.contents(), expected));
}

TEST_P(SharedPieces, OrderHoldsBetweenTheWays) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  std::vector<Transfer> all;
  all.push_back(side.put());
  all.push_back(side.put(8192, kSmall));
  Memory into(side.context, GetParam().here, kBytes);
  const auto sent = side.contents();
  all.push_back(value(side.endpoint.get(into.all(), side.target.slice(0, kBytes))));
  for (Transfer& each : all) good(each.wait(within(10s)));
  EXPECT_EQ(all[1].path(), over_tcp() ? Path::tcp : Path::staged);
  EXPECT_TRUE(same_bytes(into.contents(), sent));
}

TEST_P(SharedPieces, AnImmediateComesBehindTheBytes) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  const auto sent = side.contents();
  Transfer put = value(side.endpoint.put(side.region.slice(0, kBytes), side.target.slice(0, kBytes),
                                         {.level = CompletionLevel::visible, .immediate = 7}));
  good(put.wait(within(10s)));
  side.expect_there(sent);
}

TEST_P(SharedPieces, APeerWhosePolicyExcludesThemIsNotStaged) {
  if (!over_tcp()) return;  // its process would not register such memory
  PeerProcess::Options of_peer = options();
  of_peer.paths.allow = {Path::host, Path::zero_copy, Path::tcp, Path::ipc};
  const PeerProcess peer(of_peer);
  IpcSide side = side_of(peer);
  const auto sent = side.contents();
  for (int i = 0; i < 2; ++i) {
    Transfer put = side.put();
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), Path::tcp);
    EXPECT_EQ(put.explain().protocol, Protocol::direct);
  }
  side.expect_there(sent);
}

TEST_P(SharedPieces, AWrongKeyEndsTheEndpoint) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  side.target.token ^= 1U;
  Transfer put = side.put();
  const auto over = put.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
  EXPECT_EQ(peer.changed_bytes(), 0U);
}

TEST_P(SharedPieces, WhoIsStoppedIsWaitedForUntilTheDeadline) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  // Before it has mapped them, and after.
  for (int i = 0; i < 2; ++i) {
    peer.stop();
    Transfer put = side.put();
    const Deadline longer_than_peer_timeout = Deadline::after(900ms);
    while (!longer_than_peer_timeout.passed()) side.worker.progress();
    EXPECT_FALSE(put.done()) << "who is stopped is not dead";
    peer.go_on();
    good(put.wait(within(10s)));
  }
  peer.stop();
  Transfer late = side.get();
  const auto over = late.wait(within(300ms));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out) << describe(over.error());
  peer.go_on();
}

/// Before the peer has mapped the pieces, or after.
void expect_death_noticed(PeerProcess& peer, IpcSide& side, bool mapped) {
  if (mapped) good(side.put().wait(within(10s)));
  peer.stop();  // so that it does not answer
  Transfer get = side.get();
  side.worker.progress();
  peer.kill();
  const auto over = get.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  const auto now = side.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.contents(), now));
  EXPECT_EQ(side.worker.state()->staged, 0U);
}

TEST_P(SharedPieces, WhoIsKilledAtTheFirstIsNoticed) {
  PeerProcess peer(options());
  IpcSide side = side_of(peer);
  expect_death_noticed(peer, side, false);
}

TEST_P(SharedPieces, WhoIsKilledLaterIsNoticed) {
  PeerProcess peer(options());
  IpcSide side = side_of(peer);
  expect_death_noticed(peer, side, true);
}

TEST_P(SharedPieces, WhoLeavesBeforeItHasMappedThemIsNotWaitedFor) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  peer.stop();
  Transfer put = side.put();
  side.worker.progress();
  peer.drop_endpoints();
  const auto over = put.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  EXPECT_EQ(peer.changed_bytes(), 0U);
}

TEST_P(SharedPieces, OneThatIsCancelledIsSettled) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  Transfer get = side.get();
  for (int i = 0; i < 20; ++i) side.worker.progress();
  good(get.cancel());
  EXPECT_TRUE(get.settled());
  const auto now = side.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.contents(), now));
}

}  // namespace
}  // namespace hbmwire::test
