// SPDX-License-Identifier: MIT
#include "message/receiver_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "message/receiver.hpp"

namespace hbmwire::detail {
namespace {

struct Quiet final : Receiver {
  void on_received(ReceiveBuffer& /*buffer*/,
                   const transport::Completion& /*completion*/) noexcept override {}
};

/// Numbers that collide in one place of the table, or are close to each other.
TEST(ReceiverTable, FindsExactlyTheReceiversThatItHolds) {
  ReceiverTable table;
  std::map<std::uint32_t, std::unique_ptr<Quiet>> there;
  std::mt19937 random(7);
  for (int i = 0; i < 50000; ++i) {
    const auto number = static_cast<std::uint32_t>(1 + random() % 40 + 256 * (random() % 4));
    const auto found = there.find(number);
    ASSERT_EQ(table.find(number), found == there.end() ? nullptr : found->second.get());
    if (found == there.end()) {
      auto& added = there[number] = std::make_unique<Quiet>();
      table.add(number, *added);
    } else {
      table.remove(number);
      there.erase(found);
    }
  }
}

}  // namespace
}  // namespace hbmwire::detail
