// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "ipc_side.hpp"
#include "tests/support/lent_memory.hpp"

/// Memory that disappears while it is registered, between two processes of a node. The peer's
/// process opens memory in a file that cannot be truncated (HostMemoryOptions::shared). Private
/// memory, which this end's CPU copies, can disappear at either end.
namespace hbmwire::test {
namespace {

/// Missing memory would end the process by a fault, unless the library turned it into an error.
class IpcGoneMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }

  /// The first size is copied within the call, the second one by progress().
  static constexpr std::array kSizes{std::uint64_t{64}, PeerProcess::kBytes};

  /// Expects that the transfer fails alone.
  static void expect_alone(IpcSide& side, Transfer transfer) {
    const auto over = transfer.wait(within(10s));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().hint, Hint::memory_gone) << describe(over.error());
    EXPECT_TRUE(transfer.settled());
    EXPECT_EQ(transfer.path(), Path::shared_memory);
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  }
};

TEST_F(IpcGoneMemory, ThisEndsSharedFileCannotBeTruncated) {
  ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
  const PeerProcess peer({.type = MemoryType::cuda, .nic = "none"});
  IpcSide side(peer, MemoryType::host, "none");
  unsigned files = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this listing itself is already closed
    const std::string name = std::filesystem::read_symlink(each.path(), gone);
    if (name.find("memfd:hbmwire") == std::string::npos) continue;
    ++files;
    EXPECT_EQ(::ftruncate(std::stoi(each.path().filename()), 0), -1) << name;
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_NE(files, 0U);
  Transfer put = side.put();
  good(put.wait(within(10s)));
  EXPECT_EQ(put.path(), Path::ipc);
}

TEST_F(IpcGoneMemory, MissingMemoryOfThePeerFailsOnlyItsTransfers) {
  const PeerProcess peer({.nic = "none", .lent = true});
  IpcSide side(peer, MemoryType::host, "none");
  good(side.put().wait(within(10s)));
  peer.take_target_away();
  for (const std::uint64_t bytes : kSizes) {
    expect_alone(side, side.put(0, bytes));
    expect_alone(side, side.get(0, bytes));
  }
  Transfer flush = value(side.endpoint.flush());
  good(flush.wait(within(10s)));
}

TEST_F(IpcGoneMemory, MissingMemoryOfThisEndFailsOnlyItsTransfers) {
  const PeerProcess peer({.nic = "none"});
  IpcSide side(peer, MemoryType::host, "none");
  const LentMemory lent(PeerProcess::kBytes);
  const Region region =
      value(side.context.register_memory(lent.data(), lent.size_bytes(), Access::local_write));
  lent.take_away(LentMemory::How::truncated);
  for (const std::uint64_t bytes : kSizes) {
    const RemoteSlice target = side.target.slice(0, bytes);
    expect_alone(side, value(side.endpoint.put(region.slice(0, bytes), target)));
    expect_alone(side, value(side.endpoint.get(region.slice(0, bytes), target)));
  }
  good(side.put().wait(within(10s)));
}

}  // namespace
}  // namespace hbmwire::test
