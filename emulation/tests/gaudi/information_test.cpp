// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "emulation/gaudi/abi/hl_info.h"
#include "emulation/gaudi/abi/hl_thunk.h"
#include "gaudi_test_world.hpp"

namespace hbmwire::test {
namespace {

class GaudiInformation : public GaudiTest {};

TEST_F(GaudiInformation, AnswersTheQuestionsOfMonitors) {
  const OpenCard card(open_first_card());
  EXPECT_TRUE(hlthunk_is_device_idle(card.fd()));
  EXPECT_FALSE(hlthunk_is_device_idle(-1));
  hlthunk_engines_idle_info idle{};
  EXPECT_EQ(hlthunk_get_busy_engines_mask(card.fd(), &idle), 0);
  EXPECT_EQ(idle.is_idle, 1U);
  std::uint32_t rate = 7;
  EXPECT_EQ(hlthunk_get_device_utilization(card.fd(), 100, &rate), 0);
  EXPECT_EQ(rate, 0U);
  EXPECT_EQ(hlthunk_get_device_utilization(card.fd(), 100, nullptr), -EINVAL);
  hlthunk_time_sync_info first{};
  hlthunk_time_sync_info second{};
  EXPECT_EQ(hlthunk_get_time_sync_info(card.fd(), &first), 0);
  EXPECT_EQ(hlthunk_get_time_sync_info(card.fd(), &second), 0);
  EXPECT_GT(first.device_time, 0U);
  EXPECT_GE(second.device_time, first.device_time);
  hlthunk_nic_get_ports_masks_out ports{.ports_mask = 1, .ext_ports_mask = 1};
  EXPECT_EQ(hlthunk_nic_get_ports_masks(card.fd(), &ports), 0);
  EXPECT_EQ(ports.ports_mask, 0U) << "the cards have no NICs of their own";
  const OpenCard control(hlthunk_open_control(0, nullptr));
  EXPECT_TRUE(hlthunk_is_device_idle(control.fd()));
}

TEST_F(GaudiInformation, TheDriversQuestionHasTheSameAnswer) {
  const OpenCard card(open_first_card());
  hl_info_hw_idle idle{};
  hl_info_args query{.return_pointer = reinterpret_cast<std::uint64_t>(&idle),
                     .return_size = sizeof idle,
                     .op = HL_INFO_HW_IDLE,
                     .argument = 0,
                     .pad = 0};
  EXPECT_EQ(hlthunk_get_info(card.fd(), &query), 0);
  EXPECT_EQ(idle.is_idle, 1U);
  std::uint32_t now = 0;
  std::uint32_t most = 0;
  ASSERT_EQ(hlthunk_get_clk_rate(card.fd(), &now, &most), 0);
  hl_info_clk_rate rate{};
  query.return_pointer = reinterpret_cast<std::uint64_t>(&rate);
  query.return_size = sizeof rate;
  query.op = HL_INFO_CLK_RATE;
  EXPECT_EQ(hlthunk_get_info(card.fd(), &query), 0);
  EXPECT_EQ(rate.cur_clk_rate_mhz, now);
}

}  // namespace
}  // namespace hbmwire::test
