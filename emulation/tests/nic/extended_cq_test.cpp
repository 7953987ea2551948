// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "emulation/tests/nic/window_steps.hpp"

/// man ibv_create_cq_ex, ibv_query_rt_values_ex.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kTimes = std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                                 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

ibv_cq_init_attr_ex attributes_of(std::uint64_t wc_flags) {
  ibv_cq_init_attr_ex attributes{};
  attributes.cqe = 16;
  attributes.wc_flags = wc_flags;
  return attributes;
}

/// A connected pair whose side b completes in an extended CQ, which has `flags`.
struct ExtendedCqPair : Pair {
  explicit ExtendedCqPair(std::uint32_t flags = 0, std::uint32_t depth = 16)
      : Pair({}, {.mr_access = kBindable}) {
    b.qp.reset();
    ibv_cq_init_attr_ex attributes = attributes_of(IBV_WC_STANDARD_FLAGS | kTimes);
    attributes.cqe = depth;
    attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attributes.flags = flags;
    cq = ibv_create_cq_ex(b.context.get(), &attributes);
    EXPECT_NE(cq, nullptr);
    b.cq.reset(ibv_cq_ex_to_cq(cq));
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = b.cq.get();
    init.cap = {64, 64, 1, 1, 0};
    b.qp.reset(ibv_create_qp(b.pd.get(), &init));
    EXPECT_EQ(a.to(IBV_QPS_RESET), 0);
    a.connect(b.address());
    b.connect(a.address());
  }

  /// Makes the next completion the current one.
  [[nodiscard]] bool begin() const {
    ibv_poll_cq_attr poll{};
    return ibv_start_poll(cq, &poll) == 0;
  }

  ibv_cq_ex* cq = nullptr;
};

TEST(ExtendedCq, TakesEveryStandardFlagAndTheTimes) {
  Endpoint at;
  for (std::uint64_t flag = 1; flag < std::uint64_t{1} << 12U; flag <<= 1U) {
    const bool known = (flag & (IBV_WC_STANDARD_FLAGS | kTimes)) != 0;
    ibv_cq_init_attr_ex attributes = attributes_of(flag);
    ibv_cq_ex* cq = ibv_create_cq_ex(at.context.get(), &attributes);
    EXPECT_EQ(cq != nullptr, known) << "wc_flags " << flag;
    EXPECT_TRUE(cq != nullptr || errno == EOPNOTSUPP);
    if (cq != nullptr) ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
  }
}

TEST(ExtendedCq, RefusesUnsupportedFeatures) {
  Endpoint at;
  ibv_cq_init_attr_ex attributes = attributes_of(IBV_WC_STANDARD_FLAGS);
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  attributes.parent_domain = at.pd.get();
  EXPECT_EQ(ibv_create_cq_ex(at.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attributes.flags = 1U << 5U;
  EXPECT_EQ(ibv_create_cq_ex(at.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attributes.flags = 0;
  attributes.cqe = 0;
  EXPECT_EQ(ibv_create_cq_ex(at.context.get(), &attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_modify_cq_attr moderation{};
  moderation.attr_mask = IBV_CQ_ATTR_MODERATE;
  EXPECT_EQ(ibv_modify_cq(at.cq.get(), &moderation), EOPNOTSUPP);
}

TEST(ExtendedCq, ReadsTheFieldsOfAReceive) {
  ExtendedCqPair pair;
  ASSERT_EQ(pair.b.post_recv(31, 0, 64), 0);
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 0x01020304;
  ASSERT_EQ(pair.a.post(request, {pair.a.element(0, 20)}), 0);
  ASSERT_TRUE(pair.begin());
  EXPECT_EQ(pair.cq->wr_id, 31U);
  EXPECT_EQ(pair.cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(pair.cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(pair.cq), 20U);
  EXPECT_EQ(ibv_wc_read_imm_data(pair.cq), 0x01020304U);
  EXPECT_EQ(ibv_wc_read_qp_num(pair.cq), pair.b.qp->qp_num);
  EXPECT_EQ(ibv_wc_read_src_qp(pair.cq), pair.a.qp->qp_num);
  EXPECT_NE(ibv_wc_read_wc_flags(pair.cq) & IBV_WC_WITH_IMM, 0U);
  EXPECT_EQ(ibv_wc_read_slid(pair.cq), 0U);
  EXPECT_EQ(ibv_wc_read_sl(pair.cq), 0);
  EXPECT_EQ(ibv_wc_read_dlid_path_bits(pair.cq), 0);
  EXPECT_EQ(ibv_wc_read_vendor_err(pair.cq), 0U);
  EXPECT_EQ(ibv_next_poll(pair.cq), ENOENT);
  ibv_end_poll(pair.cq);
}

TEST(ExtendedCq, ReadsTheInvalidatedKey) {
  ExtendedCqPair pair;
  const Mw window = alloc_window(pair.b, IBV_MW_TYPE_2);
  const std::uint32_t rkey = ibv_inc_rkey(window->rkey);
  ASSERT_EQ(bind_type_2(pair.b, window.get(), rkey, part_of(pair.b, 0, 64, kRemoteWrite)), 0);
  ASSERT_EQ(pair.b.post_recv(1, 0, 64), 0);
  ASSERT_EQ(send_with_invalidate(pair.a, rkey), 0);
  ASSERT_TRUE(pair.begin());
  EXPECT_EQ(ibv_wc_read_opcode(pair.cq), IBV_WC_BIND_MW);
  ASSERT_EQ(ibv_next_poll(pair.cq), 0);
  EXPECT_EQ(ibv_wc_read_wc_flags(pair.cq), static_cast<unsigned>(IBV_WC_WITH_INV));
  EXPECT_EQ(ibv_wc_read_invalidated_rkey(pair.cq), rkey);
  ibv_end_poll(pair.cq);
}

TEST(ExtendedCq, StampsCompletionsByTheDevicesClock) {
  ExtendedCqPair pair;
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(pair.b.context.get(), nullptr, &device), 0);
  ASSERT_NE(device.completion_timestamp_mask, 0U);
  const auto device_clock = [&] {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    EXPECT_EQ(ibv_query_rt_values_ex(pair.b.context.get(), &values), 0);
    EXPECT_EQ(values.comp_mask, static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK));
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
  };
  const std::uint64_t before = device_clock();
  const std::uint64_t wall_before = nanoseconds(CLOCK_REALTIME);
  ASSERT_EQ(pair.b.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.a.address()), 0);
  const std::uint64_t after = device_clock();
  const std::uint64_t wall_after = nanoseconds(CLOCK_REALTIME);
  ASSERT_TRUE(pair.begin());
  EXPECT_GE(ibv_wc_read_completion_ts(pair.cq), before);
  EXPECT_LE(ibv_wc_read_completion_ts(pair.cq), after);
  constexpr std::uint64_t kSlack = 1'000'000;  // the clocks are read in turn
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(pair.cq) + kSlack, wall_before);
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(pair.cq), wall_after + kSlack);
  ibv_end_poll(pair.cq);
}

TEST(DeviceClock, RunsAtItsFrequency) {
  const Context context = open_device();
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &device), 0);
  ibv_values_ex first{};
  first.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context.get(), &first), 0);
  const std::uint64_t start = nanoseconds(CLOCK_MONOTONIC);
  while (nanoseconds(CLOCK_MONOTONIC) - start < 5'000'000) {
  }
  ibv_values_ex second = first;
  ASSERT_EQ(ibv_query_rt_values_ex(context.get(), &second), 0);
  const std::uint64_t cycles =
      static_cast<std::uint64_t>(second.raw_clock.tv_nsec - first.raw_clock.tv_nsec);
  EXPECT_GE(cycles / device.hca_core_clock, 5U) << "milliseconds, the clock being in kHz";
  ibv_values_ex nothing{};
  EXPECT_EQ(ibv_query_rt_values_ex(context.get(), &nothing), 0);
  EXPECT_EQ(nothing.comp_mask, 0U);
}

/// A program that sets this flag promises that no overrun happens. If one does, the device goes on.
TEST(ExtendedCq, IgnoringOverrunsKeepsTheNewestEntries) {
  ExtendedCqPair pair(IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, 4);
  for (std::uint64_t id = 0; id < 6; ++id)
    ASSERT_EQ(pair.b.rdma(IBV_WR_RDMA_WRITE, id, 0, 8, pair.a.address()), 0);
  EXPECT_EQ(pair.b.state(), IBV_QPS_RTS);
  EXPECT_FALSE(pair.b.wait_event(std::chrono::milliseconds(20)).has_value());
  // The CQ has room for four of the six completions.
  for (std::uint64_t id = 2; id < 6; ++id) expect_completion(pair.b, id);
}

}  // namespace
}  // namespace hbmwire::test
