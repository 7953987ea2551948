// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "ipc_side.hpp"

/// Device memory of two processes of a node that no NIC reaches and no engine of the peer opens.
/// The bytes go through host memory that both have mapped. emu1 imports no dma-bufs; "none" means
/// TCP.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = PeerProcess::kBytes;
constexpr std::uint64_t kSmall = 4096;  // goes over TCP without a NIC

const PathPolicy kNoIpc{
    .require = {},
    .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged, Path::copy, Path::tcp}};

/// The types of memory of this end and of the peer, and the NIC of both.
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
  EXPECT_EQ(put.explain().protocol, Protocol::proxied);
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

TEST_P(SharedPieces, OrderHoldsBetweenPiecesAndTheOtherPath) {
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

TEST_P(SharedPieces, APolicyOfThePeerExcludesSharedPieces) {
  // With a NIC, a peer of such a policy would not register device memory at all.
  if (!over_tcp()) return;
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

TEST_P(SharedPieces, APolicyOfThisEndExcludesSharedPieces) {
  // With a NIC, an end of such a policy would not register device memory at all.
  if (!over_tcp()) return;
  const PeerProcess peer(options());
  IpcSide side(peer, GetParam().here, GetParam().nic,
               {.require = {}, .allow = {Path::host, Path::zero_copy, Path::tcp}});
  const auto sent = side.contents();
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::tcp);
  EXPECT_EQ(put.explain().protocol, Protocol::direct);
  side.expect_there(sent);
}

TEST_P(SharedPieces, CarryTransfersOf64KiBAndMore) {
  if (!over_tcp()) return;
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  for (const std::uint64_t bytes : {std::uint64_t{65535}, std::uint64_t{65536}}) {
    Transfer put = side.put(0, bytes);
    good(put.wait(within(10s)));
    EXPECT_EQ(put.path(), bytes < 65536 ? Path::tcp : Path::staged) << bytes;
  }
}

/// Descriptors of host memory that this process shares.
std::set<int> shared_files() {
  std::set<int> files;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(each.path(), gone);
    if (name.find("memfd:hbmwire") != std::string::npos)
      files.insert(std::stoi(each.path().filename()));
  }
  return files;
}

/// Acts as if the peer cannot map files of this process: the descriptor that it opens leads to
/// /dev/null.
TEST_P(SharedPieces, TheOtherPathIsUsedIfThePeerCannotMapThePieces) {
  PeerProcess::Options of_peer = options();
  of_peer.does = [](PeerProcess::Inside& inside, std::int64_t) {
    return static_cast<std::uint64_t>(
        std::count_if(inside.log.begin(), inside.log.end(), [](const std::string& line) {
          return line.find("and not through shared host memory") != std::string::npos;
        }));
  };
  const PeerProcess peer(of_peer);
  IpcSide side = side_of(peer);
  const auto sent = side.contents();
  peer.stop();
  const std::set<int> before = shared_files();
  Transfer first = side.put();
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  unsigned replaced = 0;
  for (const int file : shared_files()) {
    if (before.contains(file)) continue;
    EXPECT_EQ(::dup3(null.get(), file, O_CLOEXEC), file);
    ++replaced;
  }
  EXPECT_EQ(replaced, 1U);
  peer.go_on();
  good(first.wait(within(10s)));
  EXPECT_EQ(first.path(), over_tcp() ? Path::tcp : Path::staged);
  Transfer second = side.put();
  good(second.wait(within(10s)));
  EXPECT_EQ(second.path(), first.path());
  side.expect_there(sent);
  EXPECT_EQ(peer.call(), 1U);
}

TEST_P(SharedPieces, AWrongKeyEndsTheEndpoint) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  auto other = internals::look_at(side.target);
  other.token ^= 1U;
  internals::set(side.target, other);
  Transfer put = side.put();
  const auto over = put.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied) << describe(over.error());
  EXPECT_EQ(side.endpoint.phase(), EndpointPhase::failed);
  EXPECT_EQ(peer.changed_bytes(), 0U);
}

TEST_P(SharedPieces, AStoppedPeerIsAwaitedUntilTheDeadline) {
  const PeerProcess peer(options());
  IpcSide side = side_of(peer);
  // The peer stops once before it has mapped the pieces, and once afterwards.
  for (int i = 0; i < 2; ++i) {
    peer.stop();
    Transfer put = side.put();
    const Deadline longer_than_peer_timeout = Deadline::after(900ms);
    while (!longer_than_peer_timeout.passed()) side.worker.progress();
    EXPECT_FALSE(put.done()) << "a stopped peer is not dead";
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

/// Kills the peer before or after it has mapped the pieces, and expects that this end notices.
void expect_death_noticed(PeerProcess& peer, IpcSide& side, bool mapped) {
  if (mapped) good(side.put().wait(within(10s)));
  peer.stop();  // keeps it from answering
  Transfer get = side.get();
  side.worker.progress();
  peer.kill();
  const auto over = get.wait(within(10s));
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::peer_failed) << describe(over.error());
  const auto now = side.contents();
  for (int i = 0; i < 200; ++i) side.worker.progress();
  EXPECT_TRUE(same_bytes(side.contents(), now));
  EXPECT_EQ(internals::look_at(side.worker).staged, 0U);
}

TEST_P(SharedPieces, APeerKilledBeforeItMapsThePiecesIsNoticed) {
  PeerProcess peer(options());
  IpcSide side = side_of(peer);
  expect_death_noticed(peer, side, false);
}

TEST_P(SharedPieces, APeerKilledAfterItMappedThePiecesIsNoticed) {
  PeerProcess peer(options());
  IpcSide side = side_of(peer);
  expect_death_noticed(peer, side, true);
}

TEST_P(SharedPieces, APeerThatEndsBeforeItMapsThePiecesIsNotAwaited) {
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

TEST_P(SharedPieces, ACancelledGetIsSettled) {
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
