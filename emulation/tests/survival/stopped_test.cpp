// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "emulation/tests/nic/child_process.hpp"
#include "emulation/tests/nic/plugin.hpp"
#include "emulation/tests/nic/xrc_side.hpp"
#include "emulation/tests/survival/bounded.hpp"

/// A process that is stopped at a step inside the NIC. Meanwhile every call of its peer returns,
/// and all work goes on once the process continues.
namespace hbmwire::test {
namespace {

constexpr std::uint32_t kStoppedBytes = 4096;
const Timing kPatientWithStopped{.timeout = 14, .retry_count = 7, .rnr_retry = 7};

/// Memory that a peer's NIC maps, so it copies into it directly.
class File {
 public:
  explicit File(const Endpoint& owner) : fd_(::memfd_create("file", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd_.get(), kStoppedBytes), 0);
    mr.reset(ibv_reg_dmabuf_mr(owner.pd.get(), 0, kStoppedBytes, 0, fd_.get(), kAllAccess));
    EXPECT_NE(mr, nullptr);
  }

 private:
  Fd fd_;

 public:
  Mr mr;
};

int post_recv(const Endpoint& endpoint, const File& file, std::uint64_t id) {
  ibv_sge sge{0, kStoppedBytes, file.mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(endpoint.qp.get(), &request, &bad);
}

/// The instruction to the child: to be stopped, or killed, at a step.
struct StopOrder {
  char step[32] = {};
  int signal = 0;
};

StopOrder order(const std::string& step, int signal) {
  StopOrder result;
  step.copy(result.step, sizeof result.step - 1);
  result.signal = signal;
  return result;
}

/// A child's body: SENDs to the peer, or creates and destroys objects, until the step of its
/// instruction. It sends a byte before that, and another one if it goes on afterwards. A step
/// "peer_X" means the step X at the completion of the peer's receive. "own_completing" means the
/// step "completing" of a WRITE.
void obey_until_stopped(const Line& line) {
  Endpoint self;
  self.connect(line.exchange(self.address()), kPatientWithStopped);
  ASSERT_EQ(self.post_recv(500, 0, 64), 0);
  const StopOrder given = line.receive<StopOrder>();
  const std::string step = given.step;
  // A SEND arrives at X for its own completion first, and the second time for the peer's.
  const std::string peers = "peer_";
  const bool second = step.starts_with(peers);
  set_step_trap(given.step + (second ? peers.size() : 0), second ? 2 : 1, given.signal);
  line.send(true);
  if (step == "claimed" || step == "released") {
    const Mr mr((ibv_reg_mr)(self.pd.get(), self.buffer.data(), 4096, kAllAccess));
    EXPECT_NE(mr, nullptr);
  } else if (step == "own_completing") {
    set_step_trap("completing", 1, given.signal);
    const Address peer = line.receive<Address>();
    ASSERT_EQ(self.rdma(IBV_WR_RDMA_WRITE, 9, 0, 8, peer), 0);
    expect_completion(self, 9);
    expect_completion(self, 500);  // a message that came while this process was stopped
  } else {
    ASSERT_EQ(self.send(9, 0, kStoppedBytes), 0);
    std::optional<ibv_wc> completion = self.wait();
    if (completion && completion->wr_id == 500) completion = self.wait();
    ASSERT_TRUE(completion);
    EXPECT_EQ(completion->wr_id, 9U);
  }
  line.send(true);
  line.receive<bool>();
}

/// This process with its endpoint, and the child that is its peer.
class Party {
 public:
  Party() : child(obey_until_stopped), file(self) {
    self.connect(child.line().exchange(self.address()), kPatientWithStopped);
    EXPECT_EQ(post_recv(self, file, 1), 0);
  }

  /// Sends the instruction, and waits until the child is about to work towards its step.
  void give(const std::string& step, int signal) {
    child.line().send(order(step, signal));
    child.line().receive<bool>();
  }

  void wait_until_stopped() {
    int status = 0;
    ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
  }

  /// Continues the child, and waits until it has finished its work.
  void let_go_on() {
    ::kill(child.pid(), SIGCONT);
    child.line().receive<bool>();
  }

  Watchdog watchdog;
  Child child;
  Endpoint self;
  File file;
};

bool is_one_of(int result, std::initializer_list<int> allowed) {
  return std::find(allowed.begin(), allowed.end(), result) != allowed.end();
}

/// Objects that were made while the child was stopped. They are destroyed when that is possible.
struct Made {
  bool message_polled = false;
  Mr mr;
  Cq cq;
  Qp qp;
};

/// Makes every kind of call while the child is stopped. Each call works or reports why not.
Made use_everything(Party& party) {
  Made made;
  Endpoint& self = party.self;
  ibv_wc wc{};
  const int polled = bounded("poll_cq", [&] { return ibv_poll_cq(self.cq.get(), 1, &wc); });
  EXPECT_GE(polled, 0);
  made.message_polled = polled == 1;
  EXPECT_TRUE(
      is_one_of(bounded("post_recv", [&] { return self.post_recv(2, 0, 64); }), {0, EAGAIN}));
  EXPECT_EQ(bounded("req_notify_cq", [&] { return ibv_req_notify_cq(self.cq.get(), 0); }), 0);
  made.mr.reset(bounded("reg_mr", [&] {
    return (ibv_reg_mr)(self.pd.get(), self.buffer.data(), kStoppedBytes, kAllAccess);
  }));
  EXPECT_TRUE(made.mr != nullptr || errno == EBUSY) << errno;
  made.cq.reset(bounded("create_cq",
                        [&] { return ibv_create_cq(self.context.get(), 4, nullptr, nullptr, 0); }));
  EXPECT_TRUE(made.cq != nullptr || errno == EBUSY) << errno;
  made.qp.reset(bounded("create_qp", [&] {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = self.cq.get();
    init.cap = {1, 1, 1, 1, 0};
    return ibv_create_qp(self.pd.get(), &init);
  }));
  EXPECT_TRUE(made.qp != nullptr || errno == EBUSY) << errno;
  Watchdog::enter("the test after use_everything()");
  return made;
}

class Stopped : public ::testing::TestWithParam<const char*> {};

TEST_P(Stopped, AStoppedProcessHangsNoOtherAndGoesOn) {
  Party party;
  party.give(GetParam(), SIGSTOP);
  party.wait_until_stopped();
  const Made made = use_everything(party);
  party.let_go_on();
  // The completion of the child's message, unless use_everything() has polled it.
  const std::string step = GetParam();
  const bool sends = step != "claimed" && step != "released";
  if (sends && !made.message_polled) expect_completion(party.self, 1);
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(party.file.mr.release()); }), 0);
  const Mr mr(
      (ibv_reg_mr)(party.self.pd.get(), party.self.buffer.data(), kStoppedBytes, kAllAccess));
  EXPECT_NE(mr, nullptr);
  party.child.line().send(true);
  EXPECT_EQ(party.child.join(), 0);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_TRUE(locks_are_free());
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, Stopped,
                         ::testing::Values("post", "located", "responder_locked", "receive_taken",
                                           "half_moved", "moved", "completing", "published",
                                           "completed", "peer_completing", "peer_published",
                                           "peer_completed", "claimed", "released"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(StoppedInACopy, AStoppedPeerKeepsTheRegionRegistered) {
  Party party;
  party.give("half_moved", SIGSTOP);
  party.wait_until_stopped();
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(party.file.mr.get()); }), EBUSY);
  EXPECT_EQ(bounded("modify_qp", [&] { return party.self.to(IBV_QPS_ERR); }), EBUSY);
  EXPECT_EQ(bounded("destroy_qp", [&] { return ibv_destroy_qp(party.self.qp.get()); }), EBUSY);
  party.let_go_on();
  expect_completion(party.self, 1);
  EXPECT_EQ(party.self.to(IBV_QPS_ERR), 0);
  EXPECT_EQ(ibv_dereg_mr(party.file.mr.release()), 0);
  party.child.line().send(true);
  EXPECT_EQ(party.child.join(), 0);
}

TEST(StoppedInACopy, AStoppedPeerLeavesOtherConnectionsAlone) {
  Party party;
  Pair others;
  party.give("half_moved", SIGSTOP);
  party.wait_until_stopped();
  for (unsigned i = 0; i < 100; ++i) {
    ASSERT_EQ(others.b.post_recv(i, 0, 64), 0);
    ASSERT_EQ(bounded("post_send", [&] { return others.a.send(i, 128, 64); }), 0);
    expect_completion(others.a, i);
    expect_completion(others.b, i);
  }
  // Requests in the other direction work too, because they need other locks.
  ASSERT_EQ(bounded("post_send", [&] { return party.self.send(7, 0, 64); }), 0);
  expect_completion(party.self, 7);
  party.let_go_on();
  expect_completion(party.self, 1);
  party.child.line().send(true);
  EXPECT_EQ(party.child.join(), 0);
}

TEST(StoppedInACompletion, AStoppedPeerHidesItsCompletionUntilItGoesOn) {
  Party party;
  party.give("peer_completing", SIGSTOP);
  party.wait_until_stopped();
  // The child holds the lock of this process's completion queue. Requests end, but are reported
  // later.
  ASSERT_EQ(bounded("post_send", [&] { return party.self.send(7, 0, 64); }), 0);
  ibv_wc wc{};
  EXPECT_EQ(bounded("poll_cq", [&] { return ibv_poll_cq(party.self.cq.get(), 1, &wc); }), 0);
  EXPECT_EQ(bounded("destroy_cq", [&] { return ibv_destroy_cq(party.self.cq.get()); }), EBUSY);
  party.let_go_on();
  expect_completion(party.self, 1);
  expect_completion(party.self, 7);
  party.child.line().send(true);
  EXPECT_EQ(party.child.join(), 0);
}

TEST(StoppedInItsOwnCompletion, AStoppedProcessGetsCompletionsThatCameMeanwhile) {
  Party party;
  party.give("own_completing", SIGSTOP);
  party.child.line().send(party.self.address());
  party.wait_until_stopped();
  ASSERT_EQ(bounded("post_send", [&] { return party.self.send(7, 0, 64); }), 0);
  party.let_go_on();
  expect_completion(party.self, 7);
  party.child.line().send(true);
  EXPECT_EQ(party.child.join(), 0);
}

/// A stopped peer counts as one that does not answer, for the time that the queue pair sets.
TEST(StoppedInItsOwnCompletion, AStoppedPeerIsGivenUpInTime) {
  Party party;
  party.give("own_completing", SIGSTOP);
  party.child.line().send(party.self.address());
  party.wait_until_stopped();
  ASSERT_EQ(bounded("post_send", [&] { return party.self.send(7, 0, 64); }), 0);
  expect_completion(party.self, 7, IBV_WC_RETRY_EXC_ERR);
  party.child.kill();
  EXPECT_EQ(party.child.join(), -SIGKILL);
}

TEST(StoppedInACopy, OthersDatagramsToTheSameQueuePairAreLost) {
  const Watchdog watchdog;
  Endpoint self({.type = IBV_QPT_UD});
  Endpoint other({.type = IBV_QPT_UD});
  for (Endpoint* each : {&self, &other}) {
    ASSERT_EQ(each->to_init(), 0);
    ASSERT_EQ(each->to_rtr({}), 0);
    ASSERT_EQ(each->to_rts(), 0);
  }
  ASSERT_EQ(self.post_recv(1, 0, 256), 0);
  const auto send = [](const Endpoint& from, const Address& to) {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = to.gid;
    path.grh.sgid_index = kGidIndex;
    path.grh.hop_limit = 64;
    const Ah ah(ibv_create_ah(from.pd.get(), &path));
    ibv_sge sge = from.element(1024, 64);
    ibv_send_wr request{};
    request.wr_id = 9;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.wr.ud.ah = ah.get();
    request.wr.ud.remote_qpn = to.qpn;
    request.wr.ud.remote_qkey = kQkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(from.qp.get(), &request, &bad);
  };
  Child child([&](const Line& line) {
    Endpoint sender({.type = IBV_QPT_UD});
    ASSERT_EQ(sender.to_init(), 0);
    ASSERT_EQ(sender.to_rtr({}), 0);
    ASSERT_EQ(sender.to_rts(), 0);
    set_step_trap("moved", 1, SIGSTOP);
    ASSERT_EQ(send(sender, line.receive<Address>()), 0);
    expect_completion(sender, 9);
  });
  child.line().send(self.address());
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  ASSERT_EQ(bounded("post_send", [&] { return send(other, self.address()); }), 0);
  expect_completion(other, 9);
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(child.join(), 0);
  expect_completion(self, 1);
}

class Killed : public ::testing::TestWithParam<const char*> {};

TEST_P(Killed, AKilledProcessLeavesNoRecordsAndItsPeerSound) {
  Party party;
  Pair others;
  const std::uint64_t bytes = ring_bytes();
  EXPECT_EQ(party.self.post_recv(2, 0, 64), 0);
  party.give(GetParam(), SIGKILL);
  EXPECT_EQ(party.child.join(), -SIGKILL);
  EXPECT_EQ(bounded("dereg_mr", [&] { return ibv_dereg_mr(party.file.mr.release()); }), 0);
  EXPECT_EQ(bounded("modify_qp", [&] { return party.self.to(IBV_QPS_ERR); }), 0);
  // The child's message has arrived or not, and never twice.
  const std::optional<ibv_wc> first = party.self.wait();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->wr_id, 1U);
  EXPECT_TRUE(first->status == IBV_WC_SUCCESS || first->status == IBV_WC_WR_FLUSH_ERR);
  expect_completion(party.self, 2, IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(party.self.cq.get(), 1, &wc), 0);
  EXPECT_EQ(records_of_others(), 0U);
  EXPECT_LE(ring_bytes(), bytes);
  EXPECT_TRUE(locks_are_free());
  ASSERT_EQ(others.b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(others.a.send(1, 0, 64), 0);
  expect_completion(others.a, 1);
}

/// Pollers see an entry before the queue's tail has moved. The next writer must notice that entry.
TEST(KilledBehindACompletion, TheNextCompletionDoesNotTakeItsPlace) {
  Party party;
  Endpoint& self = party.self;
  EXPECT_EQ(self.post_recv(2, 0, 64), 0);
  party.give("peer_published", SIGKILL);
  EXPECT_EQ(party.child.join(), -SIGKILL);
  expect_completion(self, 1);
  ASSERT_EQ(bounded("post_send", [&] { return self.send(7, 0, 64); }), 0);
  expect_completion(self, 7, IBV_WC_RETRY_EXC_ERR);
  expect_completion(self, 2, IBV_WC_WR_FLUSH_ERR);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(self.cq.get(), 1, &wc), 0);
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, Killed,
                         ::testing::Values("post", "located", "responder_locked", "receive_taken",
                                           "half_moved", "moved", "completing", "published",
                                           "completed", "peer_completing", "peer_published",
                                           "peer_completed", "claimed", "released"),
                         [](const auto& instance) { return std::string(instance.param); });

/// A queue whose only receive the child has completed but not consumed.
class FullReceiveQueue : public ::testing::Test {
 protected:
  FullReceiveQueue() : child(obey_until_stopped), self({.depth = 1}), file(self) {}

  /// Lets the child complete the receive and get `signal` before it is consumed.
  void complete_and(int signal) {
    self.connect(child.line().exchange(self.address()), kPatientWithStopped);
    ASSERT_EQ(post_recv(self, file, 1), 0);
    child.line().send(order("peer_completed", signal));
    child.line().receive<bool>();
    expect_completion(self, 1);
  }

  Watchdog watchdog;
  Child child;
  Endpoint self;
  File file;
};

TEST_F(FullReceiveQueue, HasRoomAfterAKilledSender) {
  complete_and(SIGKILL);
  EXPECT_EQ(child.join(), -SIGKILL);
  EXPECT_EQ(bounded("post_recv", [&] { return post_recv(self, file, 2); }), 0);
}

TEST_F(FullReceiveQueue, DoesNotWaitForAStoppedSender) {
  complete_and(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  EXPECT_EQ(bounded("post_recv", [&] { return post_recv(self, file, 2); }), EAGAIN);
  ::kill(child.pid(), SIGCONT);
  child.line().receive<bool>();
  EXPECT_EQ(bounded("post_recv", [&] { return post_recv(self, file, 2); }), 0);
  child.line().send(true);
  EXPECT_EQ(child.join(), 0);
}

/// The queue pair belongs to the domain, and the receive and its completion belong to the SRQ.
TEST(KilledOverASharedReceive, AnXrcDomainsReceiveIsFlushed) {
  const Watchdog watchdog;
  for (const char* step : {"receive_taken", "moved"}) {
    Child child([step](const Line& line) {
      XrcSender sender;
      sender.connect(line.exchange(sender.address()), kPatientWithStopped);
      const auto srq = line.receive<std::uint32_t>();
      set_step_trap(step, 1, SIGKILL);
      ASSERT_EQ(sender.send(9, srq), 0);
    });
    XrcReceiver receiver;
    const Qp target = receiver.make_qp();
    ASSERT_EQ(receiver.post(1), 0);
    Address mine;
    mine.qpn = target->qp_num;
    ibv_query_gid(receiver.context.get(), 1, kGidIndex, &mine.gid);
    connect_target(target, child.line().exchange(mine), kPatientWithStopped);
    child.line().send(number_of(receiver.srq));
    EXPECT_EQ(child.join(), -SIGKILL);
    ibv_qp_attr to_error{};
    to_error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(
        bounded("modify_qp", [&] { return ibv_modify_qp(target.get(), &to_error, IBV_QP_STATE); }),
        0);
    const std::optional<ibv_wc> flushed = receiver.wait();
    ASSERT_TRUE(flushed) << step;
    EXPECT_EQ(flushed->wr_id, 1U);
    EXPECT_EQ(flushed->status, IBV_WC_WR_FLUSH_ERR);
  }
}

/// A ring that does not belong to a record yet, or any more, is found and freed.
TEST(KilledOverARing, TheRingIsFreed) {
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  for (const char* step : {"claimed", "released"}) {
    Child child([step](const Line& /*line*/) {
      const Context own = open_device();
      set_step_trap(step, 1, SIGKILL);
      const Cq cq(ibv_create_cq(own.get(), 1024, nullptr, nullptr, 0));
    });
    EXPECT_EQ(child.join(), -SIGKILL);
    EXPECT_EQ(records_of_others(), 0U);
    EXPECT_EQ(ring_bytes(), 0U) << step;
  }
}

/// A process is killed between writing an event and counting it. Destroying the queue does not wait
/// for an acknowledgement that cannot come.
TEST(KilledOverAnEvent, TheQueueCanBeDestroyed) {
  const Watchdog watchdog;
  Child child([](const Line& line) {
    Endpoint writer;
    writer.connect(line.exchange(writer.address()), kPatientWithStopped);
    set_step_trap("event_written", 1, SIGKILL);
    line.receive<bool>();
    ASSERT_EQ(writer.send(9, 0, 64, 0), 0);
  });
  Endpoint self({.with_channel = true});
  self.connect(child.line().exchange(self.address()), kPatientWithStopped);
  ASSERT_EQ(self.post_recv(1, 0, 64), 0);
  ASSERT_EQ(ibv_req_notify_cq(self.cq.get(), 0), 0);
  child.line().send(true);
  EXPECT_EQ(child.join(), -SIGKILL);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(
      bounded("get_cq_event", [&] { return ibv_get_cq_event(self.channel.get(), &cq, &context); }),
      0);
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(bounded("destroy_qp", [&] { return ibv_destroy_qp(self.qp.release()); }), 0);
  EXPECT_EQ(bounded("destroy_cq", [&] { return ibv_destroy_cq(self.cq.release()); }), 0);
}

/// A process is killed after it has taken a receive of a shared queue for its message. The receive
/// is not lost.
TEST(KilledOverASharedReceive, TheReceiveIsFlushed) {
  const Watchdog watchdog;
  for (const char* step :
       {"receive_taken", "half_moved", "moved", "completing", "published", "peer_completing"}) {
    Child child(obey_until_stopped);
    Endpoint self({.srq_depth = 4});
    const File file(self);
    ibv_sge sge{0, kStoppedBytes, file.mr->lkey};
    ibv_recv_wr request{};
    request.wr_id = 1;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(self.srq.get(), &request, &bad), 0);
    self.connect(child.line().exchange(self.address()), kPatientWithStopped);
    child.line().send(order(step, SIGKILL));
    child.line().receive<bool>();
    EXPECT_EQ(child.join(), -SIGKILL);
    EXPECT_EQ(bounded("modify_qp", [&] { return self.to(IBV_QPS_ERR); }), 0);
    expect_completion(self, 1, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(self.wait_event(), IBV_EVENT_QP_LAST_WQE_REACHED) << step;
  }
}

}  // namespace
}  // namespace hbmwire::test
