// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "ipc_side.hpp"

/// Memory that goes while it is registered, where the peer's process copies. This end's is of a
/// file that can't be truncated (HostMemoryOptions::shared): the peer's alone can go.
namespace hbmwire::test {
namespace {

/// The process has a fault, unless the library sees the end of memory as an error.
class IpcGoneMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([](LogLevel, std::string_view) {});
  }

  void TearDown() override { set_log_sink({}); }

  static void expect_alone(IpcSide& side, Transfer transfer, Errc code) {
    const auto over = transfer.wait(within(10s));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().code, code) << describe(over.error());
    EXPECT_TRUE(transfer.settled());
    EXPECT_EQ(transfer.path(), Path::ipc);
    EXPECT_EQ(side.endpoint.phase(), EndpointPhase::ready);
  }
};

TEST_F(IpcGoneMemory, IsNotThisEndsWhoseFileCanNotBeTruncated) {
  ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
  const PeerProcess peer({.nic = "none"});
  IpcSide side(peer, MemoryType::host, "none");
  unsigned files = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one by which they are listed
    const std::string name = std::filesystem::read_symlink(each.path(), gone);
    if (name.find("memfd:hbmwire") == std::string::npos) continue;
    ++files;
    EXPECT_EQ(::ftruncate(std::stoi(each.path().filename()), 0), -1) << name;
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_NE(files, 0U);
  good(side.put().wait(within(10s)));
}

TEST_F(IpcGoneMemory, OfThePeersFailsThatTransferAlone) {
  ASSERT_EQ(::setenv("HBMWIRE_IPC_FROM", "64K", 1), 0);
  const PeerProcess peer({.nic = "none", .lent = true});
  IpcSide side(peer, MemoryType::host, "none");
  good(side.put().wait(within(10s)));
  peer.take_target_away();
  expect_alone(side, side.put(), Errc::peer_failed);
  expect_alone(side, side.get(), Errc::peer_failed);
  Transfer flush = value(side.endpoint.flush());
  good(flush.wait(within(10s)));
}

}  // namespace
}  // namespace hbmwire::test
