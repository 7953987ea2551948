// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "hbmwire/buffer.hpp"

#include "emulated_hooks.hpp"
#include "open_memory.hpp"

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using Owner = MemoryOptions::Owner;

/// The whole life of a buffer: open, allocate, export, register, connect, copy, transfer, and back.
Result<void> life_of_a_buffer(MemoryType type, Owner owner) {
  const Wait wait{Deadline::after(5s), -1};
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(const auto domain, test::open_memory(type, {.device = {}, .owner = owner}));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(domain, nic, 10000,
                                                   Access::remote_write | Access::remote_read));
  HBMWIRE_TRY_ASSIGN(Connection connection, Connection::create(nic, {}));
  HBMWIRE_TRY(connection.connect(connection.local()));
  std::vector<std::byte> bytes(100, std::byte{1});
  HBMWIRE_TRY(buffer.write(0, bytes, wait));
  RemoteMemory target = buffer.region().remote();
  target.address += 5000;
  HBMWIRE_TRY(connection.post_write(0, {&buffer.region(), 0, 100}, target));
  HBMWIRE_TRY(connection.wait(wait));
  std::vector<std::byte> back(100);
  HBMWIRE_TRY(buffer.read(5000, back, wait));
  EXPECT_EQ(back, bytes);
  return {};
}

struct Sweep {
  const char* name;
  MemoryType type;
  Owner owner;
  long (*fail_nth)(long, int);
};

void PrintTo(const Sweep& sweep, std::ostream* out) { *out << sweep.name; }

class FailNthCall : public testing::TestWithParam<Sweep> {};

/// n = 0, 1, ... until nothing fails any more: each failure is an error value, and afterwards
/// nothing is left.
TEST_P(FailNthCall, LeavesNothingBehind) {
  const Sweep& sweep = GetParam();
  ASSERT_TRUE(
      life_of_a_buffer(sweep.type, sweep.owner));  // libraries are loaded, lazy things are there
  EXPECT_EQ(test::live_objects(), "");
  const int descriptors = test::open_descriptors();
  const int mappings = test::file_mappings();
  int failures = 0;
  for (long n = 0; n < 500; ++n) {
    sweep.fail_nth(n, EIO);
    const auto result = life_of_a_buffer(sweep.type, sweep.owner);
    const long counted = sweep.fail_nth(-1, 0);
    EXPECT_EQ(test::live_objects(), "") << "after call " << n << " failed";
    EXPECT_EQ(test::open_descriptors(), descriptors) << "after call " << n << " failed";
    EXPECT_LE(test::file_mappings(), mappings + 2) << "after call " << n << " failed";
    if (counted <= n) {
      EXPECT_TRUE(result) << describe(result.error());
      EXPECT_GT(failures, 5) << "the sweep met fewer calls than the buffer's life has";
      return;
    }
    // The last calls tear down: their failures are logged, since there is nobody left to return
    // them to.
    if (!result) {
      ++failures;
      EXPECT_FALSE(describe(result.error()).empty());
    }
  }
  FAIL() << "the sweep did not end";
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, FailNthCall,
    testing::Values(
        Sweep{"nic_host", MemoryType::host, Owner::automatic, test::fail_nth_nic_call},
        Sweep{"nic_synapse", MemoryType::gaudi, Owner::synapse, test::fail_nth_nic_call},
        Sweep{"nic_hl_thunk", MemoryType::gaudi, Owner::hl_thunk, test::fail_nth_nic_call},
        Sweep{"gaudi_synapse", MemoryType::gaudi, Owner::synapse, test::fail_nth_gaudi_call},
        Sweep{"gaudi_hl_thunk", MemoryType::gaudi, Owner::hl_thunk, test::fail_nth_gaudi_call}),
    [](const auto& test) { return test.param.name; });

TEST(Cycles, TenThousandRegistrationsLeaveNothing) {
  const auto nic = Nic::open();
  ASSERT_TRUE(nic);
  const auto card = test::open_memory(MemoryType::gaudi, {.device = {}, .owner = Owner::hl_thunk});
  ASSERT_TRUE(card);
  const auto once = [&] {
    const auto memory = (*card)->allocate(8192);
    ASSERT_TRUE(memory) << describe(memory.error());
    const auto region = nic->register_memory(*memory, Access::remote_write);
    ASSERT_TRUE(region) << describe(region.error());
  };
  once();
  const int descriptors = test::open_descriptors();
  const int mappings = test::file_mappings();
  for (int i = 0; i < 10000; ++i) once();
  EXPECT_EQ(test::open_descriptors(), descriptors);
  EXPECT_LE(test::file_mappings(), mappings + 2);
}

}  // namespace
}  // namespace hbmwire
