// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <string>

#include "heard.hpp"
#include "staged_ends.hpp"

/// The limits of staging: the end that it needs, the number of pieces, the failures that it causes,
/// and the conditions under which a region is staged. emu1 imports no dma-bufs.
namespace hbmwire::test {
namespace {

class StagedBounds : public Staged {};

INSTANTIATE_TEST_SUITE_P(Devices, StagedBounds,
                         ::testing::Values(MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST_P(StagedBounds, TransfersNeedNothingOfThePeersProcess) {
  target();
  const RemoteRegion there = remote();
  staged().fill(1);
  for (const bool gets : {false, true}) {
    Transfer transfer = value(gets ? a_->get(staged().all(), there.slice(0, kBytes))
                                   : a_->put(staged().all(), there.slice(0, kBytes)));
    const Deadline deadline = Deadline::after(10s);
    while (!transfer.done() && !deadline.passed()) near_->progress();
    EXPECT_TRUE(transfer.done()) << "the peer's worker makes no progress";
    EXPECT_EQ(transfer.explain().protocol, Protocol::direct);
  }
  EXPECT_TRUE(same_bytes(target_->contents(), pattern(kBytes, 1)));
}

TEST_P(StagedBounds, AWorkerMayNotSleepWhileItsEngineCopies) {
  target();
  const RemoteRegion there = remote();
  Transfer put = value(a_->put(staged().all(), there.slice(0, kBytes)));
  const Deadline deadline = Deadline::after(10s);
  bool may_sleep = false;
  while (!put.done() && !may_sleep && !deadline.passed()) may_sleep = value(near_->arm());
  EXPECT_TRUE(put.done()) << "the end of the engine's copy would wake nothing";
}

TEST_P(StagedBounds, OneTransferLeavesHalfOfThePieces) {
  EXPECT_FALSE(internals::look_at(*near_).has_pieces) << "nothing has been staged yet";
  target();
  const RemoteRegion there = remote();
  Transfer get = value(a_->get(staged().all(), there.slice(0, kBytes)));
  std::size_t least = internals::look_at(*near_).free_pieces;
  const Deadline deadline = Deadline::after(10s);
  while (!get.done() && !deadline.passed()) {
    near_->progress();
    least = std::min(least, internals::look_at(*near_).free_pieces);
  }
  EXPECT_TRUE(get.done());
  EXPECT_EQ(internals::look_at(*near_).free_pieces, 16U);
  EXPECT_GE(least, 8U);
  EXPECT_EQ(kPiece, 512U << 10U);
}

/// The short message arrives eagerly, the long one by rendezvous.
TEST_P(StagedBounds, AReceiveThatTheEngineFailsFailsAlone) {
  target();
  staged();
  const std::string vendor(to_string(GetParam()));
  for (const std::uint64_t size : {std::uint64_t{64}, kBytes}) {
    unsigned failed = 0;
    for (long nth = 0; nth < 24; ++nth) {
      fail_nth_call(vendor, nth, EIO);
      Transfer into = value(a_->receive(staged().slice(0, size)));
      Transfer send = value(b_->send(target_->slice(0, size), {.level = CompletionLevel::arrived}));
      drive([&] { return into.done() && send.done(); });
      const long calls = fail_nth_call(vendor, -1, 0);
      ASSERT_EQ(a_->phase(), EndpointPhase::ready) << nth;
      ASSERT_EQ(b_->phase(), EndpointPhase::ready) << nth;
      if (!into.poll()) {
        ++failed;
        EXPECT_EQ(expect_failure(into).stage, Stage::copy);
        EXPECT_EQ(expect_failure(send).code, Errc::peer_failed);
      }
      if (calls <= nth) break;
    }
    EXPECT_NE(failed, 0U) << size;
    expect_idle();
  }
}

Result<Region> register_cuda(const Context& context) {
  return context.register_memory(value(context.allocate(MemoryType::cuda, 4096)),
                                 Access::local_write);
}

TEST(StagedRegions, AreAlsoThoseThatTheNicHasNoRoadTo) {
  const Heard heard;
  const Context context = value(Context::create({.memory = {}, .nics = {"emu0"}}));
  const Allocation memory = value(context.allocate(MemoryType::cuda, 4096));
  value(context.open_nics());
  fail_nic_calls("ibv_reg_dmabuf_mr", EPERM);
  const auto region = context.register_memory(memory, Access::local_write);
  fail_nic_calls(nullptr, 0);
  ASSERT_TRUE(region) << describe(region.error());
  EXPECT_EQ(region->path(), Path::staged);
  EXPECT_EQ(region->explain()[0].refusal->hint, Hint::dmabuf_no_p2p);
}

/// emu1 does not reach the memory, but emu0 might, so the region is refused instead of staged.
TEST(StagedRegions, DoNotExistInAContextWithTwoNics) {
  for (const PathPolicy& policy : {PathPolicy(), PathPolicy{.require = Path::staged}}) {
    const Context context =
        value(Context::create({.memory = {}, .nics = {"emu0", "emu1"}, .paths = policy}));
    const auto region = register_cuda(context);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error().hint, Hint::dmabuf_not_supported) << describe(region.error());
  }
}

/// The message is logged once per process, so this test needs its own suite.
TEST(StagedLog, SaysOnceThatADevicesMemoryIsStaged) {
  Heard heard;
  const Context context = value(Context::create({.memory = {}, .nics = {"emu1"}}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(value(register_cuda(context)).path(), Path::staged);
  EXPECT_EQ(heard.count("not zero-copy"), 1U);
}

}  // namespace
}  // namespace hbmwire::test
