// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/survival/bounded.hpp"

/// A process that has written to its peer so often that the locks on its way favour it: it takes
/// them by the mark of its thread alone (emulation/nic/state/thread_mark.hpp). Then it is stopped
/// or killed at a step of another WRITE.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kBytes = 4096;
constexpr unsigned kOften = 2000;  // more than it takes to become a lock's favourite
constexpr unsigned kBatch = 8;
const Timing kPatient{.timeout = 14, .retry_count = 7, .rnr_retry = 7};

/// The instruction to a child: it gets `signal` at the step `step` of a WRITE to `peer`.
struct Order {
  Address peer;
  char step[32] = {};
  int signal = 0;
};

void rdma_often(Endpoint& self, ibv_wr_opcode opcode, const Address& peer) {
  for (unsigned i = 0; i < kOften; ++i) {
    ASSERT_EQ(self.rdma(opcode, i, 0, 64, peer), 0);
    if (i % kBatch != kBatch - 1) continue;
    for (unsigned j = 0; j < kBatch; ++j) expect_completion(self, i + 1 - kBatch + j);
  }
}

void write_often(Endpoint& self, const Address& peer) { rdma_often(self, IBV_WR_RDMA_WRITE, peer); }

/// A child's body: becomes the favourite, sends a byte, and makes the WRITE of its order. If it
/// lives on, it sends another byte and waits for one.
void obey_express(const Line& line) {
  Endpoint self;
  self.connect(line.exchange(self.address()), kPatient);
  const Order given = line.receive<Order>();
  write_often(self, given.peer);
  set_step_trap(given.step, 1, given.signal);
  line.send(true);
  ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 9, 0, kBytes / 2, given.peer), 0);
  expect_completion(self, 9);
  line.send(true);
  line.receive<bool>();
}

/// The receiving process, with memory that the writer maps.
class Target {
 public:
  Target() : fd_(::memfd_create("target", MFD_CLOEXEC)), child_(obey_express) {
    EXPECT_EQ(::ftruncate(fd_.get(), kBytes), 0);
    mr.reset(ibv_reg_dmabuf_mr(self.pd.get(), 0, kBytes, 0, fd_.get(), kAllAccess));
    EXPECT_NE(mr, nullptr);
    self.connect(child_.line().exchange(self.address()), kPatient);
  }

  /// Waits until the child is about to make the WRITE.
  void give(const std::string& step, int signal) {
    Order order;
    order.peer = self.address();
    order.peer.buffer = 0;  // the region's addresses begin at 0
    order.peer.rkey = mr->rkey;
    step.copy(order.step, sizeof order.step - 1);
    order.signal = signal;
    child_.line().send(order);
    child_.line().receive<bool>();
  }

  Child& child() { return child_; }

 private:
  Fd fd_;
  Watchdog watchdog_;
  Child child_;

 public:
  Endpoint self;
  Mr mr;
};

class FavouredWriter : public ::testing::TestWithParam<const char*> {};

TEST_P(FavouredWriter, AKilledWriterLeavesItsPeerIntact) {
  Target target;
  Pair others;
  target.give(GetParam(), SIGKILL);
  EXPECT_EQ(target.child().join(), -SIGKILL);
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(target.mr.release()); }), 0);
  ASSERT_EQ(bounded("post_send", [&] { return target.self.send(1, 0, 64); }), 0);
  expect_completion(target.self, 1, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(bounded("modify_qp", [&] { return target.self.to(IBV_QPS_RESET); }), 0);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_TRUE(locks_are_free());
  ASSERT_EQ(others.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, others.b.address()), 0);
  expect_completion(others.a, 1);
}

TEST_P(FavouredWriter, AStoppedWriterDelaysOnlyItsPeer) {
  const std::string step = GetParam();
  Target target;
  Pair others;
  target.give(step, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(target.child().pid(), &status, WUNTRACED), target.child().pid());
  ASSERT_TRUE(WIFSTOPPED(status));
  // From "responder_locked" to "moved" the writer has the lock of its peer's queue pair. From
  // "located" to "moved" it executes a request that may use the key of any region, so no region can
  // be deregistered.
  const bool holds_peer = step == "responder_locked" || step == "half_moved" || step == "moved";
  const bool at_work = holds_peer || step == "located";
  EXPECT_EQ(bounded("modify_qp", [&] { return target.self.to(IBV_QPS_ERR); }),
            holds_peer ? EBUSY : 0);
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(others.a.mr.get()); }),
            at_work ? EBUSY : 0);
  if (!at_work) static_cast<void>(others.a.mr.release());  // it is deregistered already
  ASSERT_EQ(others.b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(bounded("post_send",
                    [&] { return others.b.rdma(IBV_WR_RDMA_WRITE, 1, 0, 64, others.b.address()); }),
            0);
  ::kill(target.child().pid(), SIGKILL);
  EXPECT_EQ(target.child().join(), -SIGKILL);
  EXPECT_EQ(bounded("modify_qp", [&] { return target.self.to(IBV_QPS_RESET); }), 0);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_TRUE(locks_are_free());
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, FavouredWriter,
                         ::testing::Values("post", "located", "responder_locked", "half_moved",
                                           "moved", "completing"),
                         [](const auto& instance) { return std::string(instance.param); });

/// Another thread changes the state of the target queue pair. It gets the lock although that
/// favours the writer, and later WRITEs see the change.
TEST(Favoured, AWriterSeesChangesOfTheResponder) {
  const Watchdog watchdog;
  Target target;
  target.give("", 0);  // no step and no signal: the child makes its WRITE and waits
  target.child().line().receive<bool>();
  Pair pair;
  write_often(pair.a, pair.b.address());
  std::thread([&] {
    EXPECT_EQ(bounded("modify_qp", [&] { return pair.b.to(IBV_QPS_RESET); }), 0);
  }).join();
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 7, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 7, IBV_WC_RETRY_EXC_ERR);
  // A region that a favoured writer has reached can be deregistered too.
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(target.mr.release()); }), 0);
  target.child().line().send(true);
  EXPECT_EQ(target.child().join(), 0);
}

void modify(Endpoint& endpoint, ibv_qp_attr values, int mask) {
  ASSERT_EQ(ibv_modify_qp(endpoint.qp.get(), &values, mask), 0);
}

/// The thread that the responder's lock favours is itself the one that changes the responder.
TEST(Favoured, AWriterSeesItsOwnChangesOfTheResponder) {
  Pair pair;
  write_often(pair.a, pair.b.address());
  ibv_qp_attr values{};
  values.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  modify(pair.b, values, IBV_QP_ACCESS_FLAGS);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 7, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 7, IBV_WC_REM_INV_REQ_ERR);
}

TEST(Favoured, AWriterDoesNotReachAPeerConnectedToAnother) {
  Pair pair;
  Endpoint another;
  write_often(pair.a, pair.b.address());
  ASSERT_EQ(pair.b.to(IBV_QPS_RESET), 0);
  pair.b.connect(another.address());
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 7, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 7, IBV_WC_RETRY_EXC_ERR);
}

TEST(Favoured, AWriteToADeregisteredRegionIsRefused) {
  Pair pair;
  write_often(pair.a, pair.b.address());
  const Address gone = pair.b.address();
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 7, 0, 64, gone), 0);
  expect_completion(pair.a, 7, IBV_WC_REM_ACCESS_ERR);
}

TEST(Favoured, AWriteBeyondTheRegionIsRefused) {
  Pair pair;
  write_often(pair.a, pair.b.address());
  Address behind = pair.b.address();
  behind.buffer += pair.b.buffer.size() - 32;  // half of the 64 bytes are beyond the end
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 7, 0, 64, behind), 0);
  expect_completion(pair.a, 7, IBV_WC_REM_ACCESS_ERR);
}

/// No other process of the fabric exists when the writer dies, so the next one that joins must free
/// the writer's records.
TEST(Favoured, AKilledWriterIsReapedByAJoiningProcess) {
  const auto write = [](const Line& line) {
    Pair pair;
    write_often(pair.a, pair.b.address());
    if (line.receive<bool>()) ::raise(SIGKILL);
  };
  Child writer(write);
  writer.line().send(true);
  EXPECT_EQ(writer.join(), -SIGKILL);
  Child next(write);
  next.line().send(false);
  EXPECT_EQ(next.join(), 0);
}

void read_often(Endpoint& self, const Address& peer) { rdma_often(self, IBV_WR_RDMA_READ, peer); }

TEST(FavouredRead, BringsTheCurrentBytes) {
  Pair pair;
  read_often(pair.a, pair.b.address());
  for (unsigned i = 0; i < 64; ++i) pair.b.buffer[i] = static_cast<unsigned char>(200 - i);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 7, 128, 64, pair.b.address()), 0);
  EXPECT_EQ(expect_completion(pair.a, 7).opcode, IBV_WC_RDMA_READ);
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(pair.a.buffer[128 + i], 200 - i);
}

TEST(FavouredRead, IsRefusedWithoutTheRight) {
  Pair pair;
  read_often(pair.a, pair.b.address());
  write_often(pair.a, pair.b.address());
  ibv_qp_attr values{};
  values.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  modify(pair.b, values, IBV_QP_ACCESS_FLAGS);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 6, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 6);
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 7, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 7, IBV_WC_REM_INV_REQ_ERR);
}

TEST(FavouredRead, IsRefusedBeyondTheRegion) {
  Pair pair;
  read_often(pair.a, pair.b.address());
  Address behind = pair.b.address();
  behind.buffer += pair.b.buffer.size() - 32;  // half of the 64 bytes are beyond the end
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 7, 0, 64, behind), 0);
  expect_completion(pair.a, 7, IBV_WC_REM_ACCESS_ERR);
}

/// Data may be sent from the requester's region, but a READ must not write its answer to it.
TEST(FavouredRead, NeedsARegionThatMayBeWritten) {
  Endpoint::Options sends;
  sends.mr_access = 0;
  Pair pair(sends);
  write_often(pair.a, pair.b.address());
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_READ, 7, 0, 64, pair.b.address()), 0);
  expect_completion(pair.a, 7, IBV_WC_LOC_PROT_ERR);
}

void send_often(Endpoint& from, Endpoint& to) {
  for (unsigned i = 0; i < kOften; ++i) {
    ASSERT_EQ(to.post_recv(i, 0, 64), 0);
    ASSERT_EQ(from.send(i, kBytes, 64), 0);
    expect_completion(to, i);
    expect_completion(from, i);
  }
}

TEST(FavouredMessage, ArrivesWhereItsReceiveSays) {
  Pair pair;
  send_often(pair.a, pair.b);
  for (std::uint32_t i = 0; i < 8; ++i) {
    pair.a.buffer[kBytes] = static_cast<unsigned char>(i + 1);
    ASSERT_EQ(pair.b.post_recv(i, i * std::size_t{64}, 64), 0);
    ASSERT_EQ(pair.a.send(i, kBytes, i + 1), 0);
    expect_completion(pair.a, i);
  }
  for (std::uint32_t i = 0; i < 8; ++i) {
    const ibv_wc received = expect_completion(pair.b, i);
    EXPECT_EQ(received.opcode, IBV_WC_RECV);
    EXPECT_EQ(received.byte_len, i + 1);
    EXPECT_EQ(received.src_qp, pair.a.qp->qp_num);
    EXPECT_EQ(pair.b.buffer[i * std::size_t{64}], i + 1);
  }
}

/// A queue pair that is its own peer gets both completions in one queue.
TEST(FavouredMessage, CompletesItsReceiveFirstInOneQueue) {
  Endpoint self;
  self.connect(self.address(), kPatient);
  send_often(self, self);
  ASSERT_EQ(self.post_recv(1, 0, 64), 0);
  ASSERT_EQ(self.send(2, kBytes, 64), 0);
  EXPECT_EQ(expect_completion(self, 1).opcode, IBV_WC_RECV);
  EXPECT_EQ(expect_completion(self, 2).opcode, IBV_WC_SEND);
}

TEST(FavouredMessage, IsRefusedByAReceiveThatIsTooShort) {
  Pair pair;
  send_often(pair.a, pair.b);
  ASSERT_EQ(pair.b.post_recv(7, 0, 32), 0);
  ASSERT_EQ(pair.a.send(8, kBytes, 64), 0);
  expect_completion(pair.a, 8, IBV_WC_REM_INV_REQ_ERR);
  expect_completion(pair.b, 7, IBV_WC_LOC_LEN_ERR);
}

TEST(FavouredMessage, FailsWithoutAReceive) {
  Pair pair;
  send_often(pair.a, pair.b);
  ASSERT_EQ(pair.a.send(8, kBytes, 64), 0);
  expect_completion(pair.a, 8, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(FavouredMessage, IsRefusedByAReceiveInADeregisteredRegion) {
  Pair pair;
  send_often(pair.a, pair.b);
  ASSERT_EQ(pair.b.post_recv(7, 0, 64), 0);
  ASSERT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
  ASSERT_EQ(pair.a.send(8, kBytes, 64), 0);
  expect_completion(pair.a, 8, IBV_WC_REM_OP_ERR);
  expect_completion(pair.b, 7, IBV_WC_LOC_PROT_ERR);
}

TEST(FavouredMessage, OverrunsAQueueThatIsNotPolled) {
  Endpoint::Options shallow;
  shallow.cq_depth = 4;
  Pair pair({}, shallow);
  send_often(pair.a, pair.b);
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.b.post_recv(i, 0, 64), 0);
    ASSERT_EQ(pair.a.send(i, kBytes, 64), 0);
  }
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(pair.b.wait_event(), IBV_EVENT_QP_FATAL);
  EXPECT_EQ(pair.b.state(), IBV_QPS_ERR);
}

/// Threads without a mark are counted, and take locks by the lock word.
TEST(Favoured, ThreadsWithoutAMarkAreServedToo) {
  constexpr unsigned kThreads = 80;  // a process has 64 marks
  std::vector<std::thread> threads;
  std::atomic<unsigned> at_work{0};
  std::atomic<bool> enough{false};
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Pair pair;
      write_often(pair.a, pair.b.address());
      at_work.fetch_add(1);
      while (!enough.load()) ::usleep(1000);  // keeps its mark
      EXPECT_EQ(ibv_dereg_mr(pair.b.mr.release()), 0);
    });
  }
  while (at_work.load() != kThreads && !::testing::Test::HasFailure()) ::usleep(1000);
  enough.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(locks_are_free());
}

}  // namespace
}  // namespace hbmwire::test
