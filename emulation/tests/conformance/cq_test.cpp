// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

#include "emulation/tests/conformance/link.hpp"

/// Completion queues: polling, resizing, overrunning.
namespace hbmwire::conformance {
namespace {

constexpr const char* kResizeSource =
    "man ibv_resize_cq: at least the number of unpolled entries; the cqe member is updated; Linux "
    "rxe_resize_cq: EINVAL";

class CompletionQueues : public Conformance {
 protected:
  /// Leaves the completions of `count` WRITEs and of a READ in the requester's send CQ, numbered
  /// from 0 to `count`.
  void fill(std::uint64_t count) {
    for (std::uint64_t id = 0; id < count; ++id)
      ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_WRITE, id), 0, 8), 0);
    // The last request fetches bytes that can be waited for without polling the CQ. The answer
    // acknowledges the requests before it.
    *link.b.word(8192) = 0x1234;
    *link.a.word(64) = 0;
    ASSERT_EQ(link.a.post(link.request(IBV_WR_RDMA_READ, count, 8192), 64, 8), 0);
    ASSERT_TRUE(wait_until([&] { return *link.a.word(64) == 0x1234; }));
  }

  /// Resizes the CQ. Returns a reason if this device does not resize CQs, else "".
  std::string resize(int length) {
    const int error = ibv_resize_cq(link.a.send_cq.get(), length);
    if (error == EOPNOTSUPP || error == ENOSYS) return "the device does not resize CQs";
    EXPECT_EQ(error, 0) << "to " << length << ": " << errno_name(error);
    EXPECT_GE(link.a.send_cq->cqe, length);
    return "";
  }

  Link link{nic, Transport::rc, {.a = {.send_depth = 64, .cq_depth = 20}}};
};

TEST_F(CompletionQueues, AreEmptyAtFirst) {
  source("man ibv_poll_cq: returns the number of completions found");
  const Cq cq = nic.make_cq();
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &completion), 0);
}

TEST_F(CompletionQueues, GiveNoMoreThanAsked) {
  source("man ibv_poll_cq: the first num_entries, or all if there are fewer");
  fill(5);
  std::array<ibv_wc, 16> completions{};
  ASSERT_EQ(ibv_poll_cq(link.a.send_cq.get(), 2, completions.data()), 2);
  EXPECT_EQ(completions[0].wr_id, 0U);
  EXPECT_EQ(completions[1].wr_id, 1U);
  std::uint64_t next = 2;
  wait_until([&] {
    const int found = ibv_poll_cq(link.a.send_cq.get(), 16, completions.data());
    for (int at = 0; at < found; ++at)
      EXPECT_EQ(completions[static_cast<std::size_t>(at)].wr_id, next++);
    return next == 6;
  });
  EXPECT_EQ(next, 6U);
}

TEST_F(CompletionQueues, APollForNoEntriesTakesNone) {
  source("man ibv_poll_cq: num_entries 0");
  fill(1);
  ibv_wc completion{};
  EXPECT_EQ(ibv_poll_cq(link.a.send_cq.get(), 0, &completion), 0);
  link.a.expect_sent(0);
  link.a.expect_sent(1);
}

TEST_F(CompletionQueues, HoldCompletionsOfADestroyedQpOrForgetThem) {
  source(
      "man ibv_destroy_qp; mlx5 removes what the QP left in its CQs, rxe leaves it: no more than "
      "was posted, and none of another");
  fill(3);
  ASSERT_EQ(ibv_destroy_qp(link.a.qp.release()), 0);
  int found = 0;
  ibv_wc completion{};
  while (ibv_poll_cq(link.a.send_cq.get(), 1, &completion) == 1) {
    EXPECT_EQ(completion.wr_id, static_cast<std::uint64_t>(found));
    ++found;
  }
  EXPECT_LE(found, 4);
}

TEST_F(CompletionQueues, GrowOnRequest) {
  source(kResizeSource);
  HBMWIRE_NEED(resize(500));
  fill(3);
  for (std::uint64_t id = 0; id <= 3; ++id) link.a.expect_sent(id);
}

TEST_F(CompletionQueues, KeepTheirEntriesWhenTheyGrow) {
  source(kResizeSource);
  fill(7);
  HBMWIRE_NEED(resize(500));
  for (std::uint64_t id = 0; id <= 7; ++id) link.a.expect_sent(id);
  fill(7);
  for (std::uint64_t id = 0; id <= 7; ++id) link.a.expect_sent(id);
}

TEST_F(CompletionQueues, HoldAsMuchAsTheyGrewTo) {
  source(kResizeSource);
  HBMWIRE_NEED(resize(60));
  fill(50);
  for (std::uint64_t id = 0; id <= 50; ++id) link.a.expect_sent(id);
}

TEST_F(CompletionQueues, ShrinkOnRequest) {
  source(kResizeSource);
  fill(3);
  HBMWIRE_NEED(resize(8));
  for (std::uint64_t id = 0; id <= 3; ++id) link.a.expect_sent(id);
}

TEST_F(CompletionQueues, DoNotShrinkBelowWhatTheyHold) {
  source(kResizeSource);
  HBMWIRE_NEED(resize(20));
  fill(9);
  const int error = ibv_resize_cq(link.a.send_cq.get(), 4);
  if (error == 0) {
    EXPECT_GE(link.a.send_cq->cqe, 10) << "a smaller size may be ignored";
  } else {
    EXPECT_EQ(error, EINVAL) << errno_name(error);
  }
  for (std::uint64_t id = 0; id <= 9; ++id) link.a.expect_sent(id);
}

TEST_F(CompletionQueues, DoNotGrowBeyondTheDevicesLimit) {
  source("man ibv_resize_cq, ibv_query_device: max_cqe; Linux rxe_resize_cq: EINVAL");
  HBMWIRE_NEED(resize(30));
  EXPECT_EQ(ibv_resize_cq(link.a.send_cq.get(), nic.limits().max_cqe + 1), EINVAL);
  EXPECT_GE(link.a.send_cq->cqe, 30);
}

TEST_F(CompletionQueues, CannotBeResizedToNoEntries) {
  source("man ibv_resize_cq; Linux mlx5, rxe_cq_chk_attr: a length of 0 is EINVAL");
  HBMWIRE_NEED(resize(20));
  EXPECT_EQ(ibv_resize_cq(link.a.send_cq.get(), 0), EINVAL);
}

TEST_F(CompletionQueues, OverrunIsAnError) {
  source(
      "man ibv_poll_cq: in case of a CQ overrun IBV_EVENT_CQ_ERR; IBTA vol. 1, chapter 10, CQ "
      "errors");
  const Cq small = nic.make_cq(2);
  Side a(nic, {.send_depth = 512});
  ibv_qp_init_attr initial{};
  initial.send_cq = small.get();
  initial.recv_cq = a.recv_cq.get();
  initial.cap = {512, 1, 1, 1, 0};
  initial.qp_type = IBV_QPT_RC;
  a.qp.reset(need(ibv_create_qp(nic.pd(), &initial), "ibv_create_qp"));
  Side b(nic, {});
  b.connect(a.address());
  a.connect(b.address());
  for (int count = 0; count <= small->cqe; ++count) {
    if (a.post(a.request(IBV_WR_RDMA_WRITE, 1, b.address()), 0, 8) != 0) break;
  }
  nic.expect_event(IBV_EVENT_CQ_ERR, small.get());
  a.qp.reset();  // before its CQ
}

TEST_F(CompletionQueues, ServeManyQps) {
  source("man ibv_create_qp: several QPs may have one CQ; man ibv_poll_cq: qp_num");
  const Cq shared = nic.make_cq(64);
  std::vector<std::unique_ptr<Side>> sides;
  for (int count = 0; count < 4; ++count) {
    sides.push_back(std::make_unique<Side>(nic, SideOptions{.bytes = 4096}));
    ibv_qp_init_attr initial{};
    initial.send_cq = shared.get();
    initial.recv_cq = shared.get();
    initial.cap = {4, 4, 1, 1, 0};
    initial.qp_type = IBV_QPT_RC;
    Side& side = *sides.back();
    side.qp.reset(need(ibv_create_qp(nic.pd(), &initial), "ibv_create_qp"));
    side.connect(side.address());  // connected to itself
    ASSERT_EQ(side.post(side.request(IBV_WR_RDMA_WRITE, 100U + static_cast<unsigned>(count),
                                     side.address()),
                        0, 8),
              0);
  }
  std::vector<std::uint64_t> seen(4);
  for (int count = 0; count < 4; ++count) {
    const auto completion = wait_completion(shared.get());
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, IBV_WC_SUCCESS);
    const std::uint64_t which = completion->wr_id - 100;
    ASSERT_LT(which, 4U);
    EXPECT_EQ(completion->qp_num, sides[which]->qp->qp_num);
    ++seen[which];
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 1, 1, 1}));
  sides.clear();  // before their CQ
}

}  // namespace
}  // namespace hbmwire::conformance
