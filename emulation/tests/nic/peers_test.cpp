// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "emulation/tests/nic/child_process.hpp"

/// Two processes. The child is forked and opens a NIC of its own.
namespace hbmwire::test {
namespace {

/// The usual child: it connects, lets its peer use its buffer, and waits to be told to end.
void lend_buffer(const Line& line) {
  Endpoint self;
  self.buffer[0] = 'c';
  ASSERT_EQ(self.post_recv(1, 100, 50), EINVAL) << "in RESET";
  self.connect(line.exchange(self.address()), {.rnr_retry = 7});
  line.send(true);
  line.receive<bool>();
  line.send(self.buffer[5]);
}

TEST(Peers, PrivateMemoryIsWrittenAndRead) {
  Child child(lend_buffer);
  Endpoint self;
  const Address peer = child.line().exchange(self.address());
  self.connect(peer);
  child.line().receive<bool>();
  self.buffer[0] = 'x';
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 1, peer, 5), 0);
  expect_completion(self, 1);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_READ, 2, 10, 1, peer), 0);
  expect_completion(self, 2);
  EXPECT_EQ(self.buffer[10], 'c');
  child.line().send(true);
  EXPECT_EQ(child.line().receive<unsigned char>(), 'x');
  EXPECT_EQ(child.join(), 0);
}

TEST(Peers, SendGoesThereAndBack) {
  Child child([](const Line& line) {
    Endpoint self;
    ASSERT_EQ(self.to_init(), 0);
    for (unsigned i = 0; i < 8; ++i) ASSERT_EQ(self.post_recv(i, 64 * i, 64), 0);
    const Address peer = line.exchange(self.address());
    ASSERT_EQ(self.to_rtr(peer), 0);
    ASSERT_EQ(self.to_rts({.rnr_retry = 7}), 0);
    line.send(true);
    for (unsigned i = 0; i < 8; ++i) {
      expect_completion(self, i);
      // Unsignaled: the peer may answer before a completion would be there.
      ASSERT_EQ(self.send(100 + i, 64 * i, 64, 0), 0);
    }
    line.receive<bool>();
  });
  Endpoint self;
  self.connect(child.line().exchange(self.address()), {.rnr_retry = 7});
  child.line().receive<bool>();
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_EQ(self.post_recv(i, 1024 + 64 * i, 64), 0);
    self.buffer[0] = static_cast<unsigned char>(i + 1);
    ASSERT_EQ(self.send(50 + i, 0, 64, 0), 0);
    expect_completion(self, i);
    EXPECT_EQ(self.buffer[1024 + 64 * i], i + 1);
  }
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
}

TEST(Peers, SharedFilesAreMapped) {
  Child child([](const Line& line) {
    Endpoint self;
    const Fd memfd(::memfd_create("hbm", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memfd.get(), 1 << 20), 0);
    const Mr mr(ibv_reg_dmabuf_mr(self.pd.get(), 4096, 8192, 0x7000, memfd.get(), kAllAccess));
    ASSERT_NE(mr, nullptr);
    Address mine = self.address();
    mine.buffer = 0x7000;
    mine.rkey = mr->rkey;
    self.connect(line.exchange(mine));
    line.send(true);
    line.receive<bool>();
    char there[6] = {};
    ASSERT_EQ(::pread(memfd.get(), there, 6, 4096 + 50), 6);
    EXPECT_STREQ(there, "hello");
  });
  Endpoint self;
  const Address peer = child.line().exchange(self.address());
  self.connect(peer);
  child.line().receive<bool>();
  std::memcpy(self.buffer.data(), "hello", 6);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 6, peer, 50), 0);
  expect_completion(self, 1);
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
}

TEST(Peers, ReceivePostedElsewhereWakesASenderThatWaits) {
  Child child([](const Line& line) {
    Endpoint self;
    self.connect(line.exchange(self.address()), {.rnr_retry = 7});
    line.send(true);
    line.receive<bool>();
    ASSERT_EQ(self.post_recv(1, 0, 8), 0);
    expect_completion(self, 1);  // the sender does not poll
  });
  Endpoint self;
  self.connect(child.line().exchange(self.address()), {.rnr_retry = 7});
  child.line().receive<bool>();
  ASSERT_EQ(self.send(1, 0, 8), 0);
  usleep(30000);
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
  expect_completion(self, 1);
}

TEST(KilledPeer, EndsRequestsWithRetryExceeded) {
  Child child(lend_buffer);
  Endpoint self;
  const Address peer = child.line().exchange(self.address());
  self.connect(peer, {.rnr_retry = 7});
  child.line().receive<bool>();
  ASSERT_EQ(self.send(1, 0, 8), 0);  // no receive is posted, so it waits
  ASSERT_EQ(self.post_recv(9, 0, 8), 0);
  usleep(10000);
  child.kill();
  child.join();
  expect_completion(self, 1, IBV_WC_RETRY_EXC_ERR);
  expect_completion(self, 9, IBV_WC_WR_FLUSH_ERR);
}

TEST(KilledPeer, IsNoticedByALaterRequest) {
  Child child(lend_buffer);
  Endpoint self;
  const Address peer = child.line().exchange(self.address());
  self.connect(peer);
  child.line().receive<bool>();
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer), 0);
  expect_completion(self, 1);
  child.kill();
  child.join();
  usleep(20000);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 2, 0, 8, peer), 0);
  expect_completion(self, 2, IBV_WC_RETRY_EXC_ERR);
}

TEST(KilledPeer, AWriterKilledAmongItsWritesLeavesItsPeerUsable) {
  Endpoint self({.bytes = 16 << 20});
  Child child([](const Line& line) {
    Endpoint writer({.bytes = 16 << 20});
    const Address peer = line.exchange(writer.address());
    writer.connect(peer);
    line.receive<bool>();
    for (std::uint64_t id = 0;; ++id) {
      ASSERT_EQ(writer.rdma(IBV_WR_RDMA_WRITE, id, 0, 16 << 20, peer), 0);
      expect_completion(writer, id);
    }
  });
  self.connect(child.line().exchange(self.address()));
  child.line().send(true);
  usleep(30000);
  child.kill();  // most likely while it holds the lock of this QP
  child.join();
  EXPECT_EQ(self.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(self.to(IBV_QPS_RESET), 0);
  self.connect(self.address());
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, self.address(), 100), 0);
  expect_completion(self, 1);
}

TEST(Fork, TheParentGoesOnAndItsChildIsAStranger) {
  Pair pair;
  Child child([&](const Line& line) {
    ibv_wc completion{};
    EXPECT_LT(ibv_poll_cq(pair.a.cq.get(), 1, &completion), 0);
    EXPECT_EQ(pair.a.send(1, 0, 8), EIO);
    EXPECT_EQ(pair.a.to(IBV_QPS_ERR), EIO);
    EXPECT_EQ(ibv_alloc_pd(pair.a.context.get()), nullptr);
    Endpoint fresh;
    fresh.connect(fresh.address());
    EXPECT_EQ(fresh.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, fresh.address(), 100), 0);
    expect_completion(fresh, 1);
    line.send(true);
  });
  child.line().receive<bool>();
  EXPECT_EQ(child.join(), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  EXPECT_EQ(pair.a.state(), IBV_QPS_RTS);
}

TEST(Fork, ADeadParentIsDeadThoughItsChildLives) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Child parent([&](const Line& line) {
    Endpoint self;
    self.connect(line.exchange(self.address()));
    line.send(true);
    if (::fork() == 0) {  // a grandchild that outlives it and has inherited everything
      char byte = 0;
      ::close(ends[1]);
      [[maybe_unused]] const ssize_t count = ::read(ends[0], &byte, 1);
      ::_exit(0);
    }
    line.receive<bool>();
  });
  Endpoint self;
  const Address peer = parent.line().exchange(self.address());
  self.connect(peer);
  parent.line().receive<bool>();
  usleep(20000);
  parent.kill();
  parent.join();
  ::usleep(20000);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, peer), 0);
  expect_completion(self, 1, IBV_WC_RETRY_EXC_ERR);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace hbmwire::test
