// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "emulation/tests/conformance/link.hpp"

/// Completion events: when they come, for which CQ, and which calls wait for them.
namespace hbmwire::conformance {
namespace {

constexpr const char* kNotifySource =
    "man ibv_req_notify_cq, ibv_get_cq_event; IBTA vol. 1, chapter 11, Request Completion "
    "Notification";

bool is_readable(int fd, int patience_ms) {
  pollfd ready{fd, POLLIN, 0};
  return ::poll(&ready, 1, patience_ms) == 1;
}

class CompletionEvents : public Conformance {
 protected:
  static constexpr int kAWhile_ms = 30;
  static constexpr int kPatience_ms = static_cast<int>(kPatience.count());

  /// Waits for an event of the channel and acknowledges it. Returns the CQ that it names.
  ibv_cq* next_event() {
    if (!is_readable(channel->fd, kPatience_ms)) {
      ADD_FAILURE() << "no completion event came within " << kPatience.count() << " ms";
      return nullptr;
    }
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &cookie), 0);
    EXPECT_EQ(cookie, cq->cq_context);
    ibv_ack_cq_events(cq, 1);
    return cq;
  }

  void expect_no_event() { EXPECT_FALSE(is_readable(channel->fd, kAWhile_ms)); }

  /// Sends a message `id` to a receive with the id 100 + `id`.
  void send(std::uint64_t id, unsigned flags = 0) {
    ASSERT_EQ(link.receive(100 + id, 0, 64), 0);
    ibv_send_wr request = link.request(IBV_WR_SEND, id);
    request.send_flags |= flags;
    ASSERT_EQ(link.a.post(request, 0, 8), 0);
  }

  Channel channel = nic.make_channel();
  Link link{nic, Transport::rc, {.a = {.channel = channel.get()}, .b = {.channel = channel.get()}}};
};

TEST_F(CompletionEvents, ComeForANewEntry) {
  source(kNotifySource);
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  expect_no_event();
  send(1);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
  link.b.expect_received(101);
}

TEST_F(CompletionEvents, ComeOnlyWhenAskedFor) {
  source(kNotifySource);
  send(1);
  link.a.expect_sent(1);
  link.b.expect_received(101);
  expect_no_event();
}

TEST_F(CompletionEvents, ComeOnceForEachRequest) {
  source("man ibv_req_notify_cq: one shot");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
  send(2);
  link.a.expect_sent(1);
  link.a.expect_sent(2);
  expect_no_event();
  link.b.expect_received(101);
  link.b.expect_received(102);
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(3);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, ComeForSendsToo) {
  source(kNotifySource);
  ASSERT_EQ(ibv_req_notify_cq(link.a.send_cq.get(), 0), 0);
  ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, 1), 0, 8), 0);
  EXPECT_EQ(next_event(), link.a.send_cq.get());
}

TEST_F(CompletionEvents, DoNotComeForUnsolicitedEntriesWhenOnlySolicitedAreWanted) {
  source("man ibv_req_notify_cq: solicited_only; man ibv_post_send: IBV_SEND_SOLICITED");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 1), 0);
  send(1);
  link.a.expect_sent(1);
  expect_no_event();
  send(2, IBV_SEND_SOLICITED);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, SolicitedWritesWithImmediateRaiseEvents) {
  source("man ibv_post_send: IBV_SEND_SOLICITED, valid for Send and RDMA Write with immediate");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 1), 0);
  ASSERT_EQ(link.receive(2, 0, 64), 0);
  ibv_send_wr request = link.request(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
  request.send_flags |= IBV_SEND_SOLICITED;
  ASSERT_EQ(link.a.post(request, 0, 8), 0);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, SuccessfulSendsAreUnsolicited) {
  source("man ibv_req_notify_cq: any successful send completion is unsolicited");
  ASSERT_EQ(ibv_req_notify_cq(link.a.send_cq.get(), 1), 0);
  send(1, IBV_SEND_SOLICITED);
  link.a.expect_sent(1);
  expect_no_event();
}

TEST_F(CompletionEvents, ErrorsAreSolicited) {
  source("man ibv_req_notify_cq: solicited if the status is not successful");
  ASSERT_EQ(ibv_req_notify_cq(link.a.send_cq.get(), 1), 0);
  ibv_send_wr bad = link.request(IBV_WR_RDMA_WRITE, 1);
  bad.wr.rdma.rkey ^= kKeySpoiler;
  ASSERT_EQ(link.a.post(bad, 0, 8), 0);
  EXPECT_EQ(next_event(), link.a.send_cq.get());
  link.a.expect_sent(1, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(CompletionEvents, RequestsForAllEntriesReplaceThoseForSolicitedOnes) {
  source(
      "IBTA vol. 1, chapter 11, Request Completion Notification: the next completion, once asked "
      "for, is not narrowed by asking for solicited ones");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 1), 0);
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, NameTheirCq) {
  source("man ibv_get_cq_event: the CQ that got the event, and its context");
  ASSERT_EQ(ibv_req_notify_cq(link.a.send_cq.get(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  ibv_cq* first = next_event();
  ibv_cq* second = next_event();
  EXPECT_NE(first, second);
  EXPECT_TRUE(first == link.a.send_cq.get() || first == link.b.recv_cq.get());
  EXPECT_TRUE(second == link.a.send_cq.get() || second == link.b.recv_cq.get());
}

TEST_F(CompletionEvents, AreNotWaitedForWhenTheChannelDoesNotBlock) {
  source("man ibv_get_cq_event: -1 on error; its example of a non-blocking channel");
  ASSERT_EQ(::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &cookie), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  EXPECT_EQ(next_event(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, WakeAWaitingThread) {
  source("man ibv_get_cq_event: waits for the next completion event");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  std::atomic<ibv_cq*> woken{nullptr};
  std::thread waiter([&] {
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    if (ibv_get_cq_event(channel.get(), &cq, &cookie) == 0) ibv_ack_cq_events(cq, 1);
    woken = cq;
  });
  send(1);
  EXPECT_TRUE(wait_until([&] { return woken.load() != nullptr; }));
  waiter.join();
  EXPECT_EQ(woken.load(), link.b.recv_cq.get());
}

TEST_F(CompletionEvents, MustBeAcknowledgedBeforeTheirCqGoes) {
  source("man ibv_get_cq_event: destroying a CQ waits for all its events to be acknowledged");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  ASSERT_TRUE(is_readable(channel->fd, kPatience_ms));
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel.get(), &cq, &cookie), 0);
  link.b.expect_received(101);
  link.b.qp.reset();
  std::atomic<bool> destroyed{false};
  ibv_cq* dying = link.b.recv_cq.release();
  std::thread destroyer([&] {
    EXPECT_EQ(ibv_destroy_cq(dying), 0);
    destroyed = true;
  });
  EXPECT_FALSE(wait_until([&] { return destroyed.load(); }, std::chrono::milliseconds(kAWhile_ms)));
  ibv_ack_cq_events(cq, 1);
  EXPECT_TRUE(wait_until([&] { return destroyed.load(); }));
  destroyer.join();
}

TEST_F(CompletionEvents, ADestroyedCqWithdrawsItsEvents) {
  source(
      "man ibv_destroy_cq; Linux uverbs_main.c: undelivered events of a CQ are released with it");
  ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
  send(1);
  ASSERT_TRUE(is_readable(channel->fd, kPatience_ms));
  link.b.expect_received(101);
  link.b.qp.reset();
  link.b.recv_cq.reset();
  expect_no_event();
}

TEST_F(CompletionEvents, SeveralAreAcknowledgedInOneCall) {
  source("man ibv_ack_cq_events: several in one call");
  for (std::uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(ibv_req_notify_cq(link.b.recv_cq.get(), 0), 0);
    send(id);
    ASSERT_TRUE(is_readable(channel->fd, kPatience_ms));
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel.get(), &cq, &cookie), 0);
    link.b.expect_received(100 + id);
  }
  ibv_ack_cq_events(link.b.recv_cq.get(), 3);
  link.b.qp.reset();
  EXPECT_EQ(ibv_destroy_cq(link.b.recv_cq.release()), 0);
}

}  // namespace
}  // namespace hbmwire::conformance
