// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <vector>

#include "hbmwire/buffer.hpp"

#include "open_memory.hpp"

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using Owner = MemoryOptions::Owner;

/// Random writes through NIC and copy engine against a model in host memory: offsets, lengths and
/// their arithmetic.
class BufferProperty : public testing::TestWithParam<Owner> {};

TEST_P(BufferProperty, EveryPathWritesExactlyItsRange) {
  const auto nic = Nic::open();
  ASSERT_TRUE(nic) << describe(nic.error());
  const auto card = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = GetParam()});
  ASSERT_TRUE(card) << describe(card.error());
  const auto host = test::open_memory(MemoryType::host);
  const Wait wait{Deadline::after(60s), -1};
  constexpr Access kAll = Access::local_write | Access::remote_write | Access::remote_read;

  const bool held = rc::check([&] {
    const auto size = *rc::gen::inRange<std::uint64_t>(1, 20000);
    auto device = Buffer::create(*card, *nic, size, kAll);
    auto source = Buffer::create(*host, *nic, size, kAll);
    RC_ASSERT(device.has_value());
    RC_ASSERT(source.has_value());
    auto connection = Connection::create(*nic, {});
    RC_ASSERT(connection.has_value());
    RC_ASSERT(connection->connect(connection->local()).has_value());
    std::vector<std::byte> model(size, std::byte{0xee});
    RC_ASSERT(device->write(0, model, wait).has_value());

    for (int step = 0; step < 4; ++step) {
      const auto offset = *rc::gen::inRange<std::uint64_t>(0, size);
      const auto length = *rc::gen::inRange<std::uint64_t>(1, size - offset + 1);
      const auto bytes = *rc::gen::container<std::vector<std::byte>>(
          length, rc::gen::map(rc::gen::inRange(0, 256),
                               [](int value) { return static_cast<std::byte>(value); }));
      if (*rc::gen::arbitrary<bool>()) {
        RC_ASSERT(device->write(offset, bytes, wait).has_value());
      } else {
        RC_ASSERT(source->write(0, bytes, wait).has_value());
        RemoteMemory target = device->region().remote();
        target.address += offset;
        RC_ASSERT(connection->post_write(0, {&source->region(), 0, length}, target).has_value());
        RC_ASSERT(connection->wait(wait).has_value());
      }
      std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    std::vector<std::byte> got(size);
    RC_ASSERT(device->read(0, got, wait).has_value());
    RC_ASSERT(got == model);
    RC_ASSERT(!device->write(size, std::vector<std::byte>(1), wait).has_value());
  });
  EXPECT_TRUE(held);
}

INSTANTIATE_TEST_SUITE_P(BothOwners, BufferProperty,
                         testing::Values(Owner::synapse, Owner::hl_thunk), [](const auto& test) {
                           return test.param == Owner::synapse ? "Synapse" : "HlThunk";
                         });

}  // namespace
}  // namespace hbmwire
