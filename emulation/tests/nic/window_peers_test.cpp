// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/window_steps.hpp"

/// Windows that belong to another process.
namespace hbmwire::test {
namespace {

/// A child that opens a window to 64 bytes at 100 of its buffer, and waits for the SEND that
/// invalidates it.
void open_window(const Line& line) {
  Endpoint self({.mr_access = kBindable});
  self.connect(line.exchange(self.address()));
  ASSERT_EQ(self.post_recv(1, 0, 16), 0);
  const Mw window =
      bound_type_2(self, part_of(self, 100, 64, kRemoteWrite | IBV_ACCESS_REMOTE_ATOMIC));
  line.send(window->rkey);
  const ibv_wc received = expect_completion(self, 1);
  EXPECT_EQ(received.invalidated_rkey, window->rkey);
  EXPECT_EQ(self.buffer[163], 0x5a);
  line.send(true);
  line.receive<bool>();
}

TEST(WindowPeers, APeerWritesThroughAWindowAndInvalidatesIt) {
  Child child(open_window);
  Endpoint self;
  Address peer = child.line().exchange(self.address());
  self.connect(peer);
  peer.rkey = child.line().receive<std::uint32_t>();
  self.buffer[0] = 0x5a;
  // Byte 163 is the last of the window.
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, peer, 163), 0);
  expect_completion(self, 1);
  ASSERT_EQ(send_with_invalidate(self, peer.rkey), 0);
  expect_completion(self, 9);  // the SEND's wr_id in window_steps.hpp
  child.line().receive<bool>();
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 2, 0, 1, peer, 163), 0);
  expect_completion(self, 2, IBV_WC_REM_ACCESS_ERR);
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
}

TEST(WindowPeers, AKilledProcessLeavesNoWindowBehind) {
  constexpr std::size_t kMany = 40000;  // more than half of the windows that the device has
  Child child([](const Line& line) {
    Endpoint self({.mr_access = kBindable});
    self.connect(line.exchange(self.address()));
    std::vector<Mw> windows;
    while (windows.size() < kMany) windows.push_back(alloc_window(self, IBV_MW_TYPE_2));
    const Mw bound = bound_type_2(self, part_of(self, 0, 64, kRemoteWrite));
    line.send(bound->rkey);
    line.receive<bool>();
  });
  Endpoint self;
  Address peer = child.line().exchange(self.address());
  self.connect(peer);
  peer.rkey = child.line().receive<std::uint32_t>();
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, peer), 0);
  expect_completion(self, 1);
  std::vector<Mw> windows;
  while (windows.size() < kMany) {
    windows.push_back(alloc_window(self, IBV_MW_TYPE_2));
    if (!windows.back()) break;
  }
  EXPECT_EQ(windows.back(), nullptr) << "the child holds the other windows";
  windows.clear();
  child.kill();
  child.join();
  usleep(20000);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 2, 0, 1, peer), 0);
  expect_completion(self, 2, IBV_WC_RETRY_EXC_ERR);
  while (windows.size() < kMany) {
    windows.push_back(alloc_window(self, IBV_MW_TYPE_2));
    ASSERT_NE(windows.back(), nullptr) << windows.size();
  }
}

/// man ibv_fork_init: only the parent may use its objects after a fork.
TEST(WindowPeers, AForkedChildCannotUseItsParentsWindows) {
  Pair pair({}, {.mr_access = kBindable});
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_1);
  Child child([&](const Line&) {
    EXPECT_EQ(alloc_window(pair.b, IBV_MW_TYPE_1), nullptr);
    EXPECT_EQ(errno, EIO);
    EXPECT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteRead)), EIO);
    EXPECT_EQ(ibv_dealloc_mw(window.get()), EIO);
    EXPECT_EQ(ibv_rereg_mr(pair.b.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_resize_cq(pair.b.cq.get(), 10), EIO);
  });
  EXPECT_EQ(child.join(), 0);
  EXPECT_EQ(bind_type_1(pair.b, window.get(), part_of(pair.b, 0, 64, kRemoteRead)), 0);
  expect_completion(pair.b, 7);  // the bind's wr_id in window_steps.hpp
}

}  // namespace
}  // namespace hbmwire::test
