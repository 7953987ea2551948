// SPDX-License-Identifier: MIT
#include <array>
#include <cerrno>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "memory_contract.hpp"

namespace hbmwire::test {

namespace {

// A copy is polled until it has finished, some hundred times on a busy machine.
constexpr long kMostCalls = 5000;

/// The whole life of a buffer: probe, open, allocate, export, register, connect, copy, transfer,
/// and release.
Result<void> life_of_a_buffer(const MemorySubject& subject) {
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open("emu0"));
  HBMWIRE_TRY_ASSIGN(const Nic other, Nic::open("emu1"));
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  std::shared_ptr<MemoryDomain> domain;
  if (subject.allocates) {
    HBMWIRE_TRY_ASSIGN(domain, context.open(subject.type, subject.options));
  }
  HBMWIRE_TRY_ASSIGN(const Allocation memory,
                     subject.make ? subject.make(context, 10'000, 1) : domain->allocate(10'000));
  HBMWIRE_TRY_ASSIGN(Buffer buffer,
                     Buffer::create(memory, nic, Access::remote_write | Access::remote_read));
  const std::array both{nic, other};
  HBMWIRE_TRY_ASSIGN(const Region shared, Nic::register_memory(both, memory, Access::remote_write));
  HBMWIRE_TRY_ASSIGN(Connection connection, Connection::create(nic, {}));
  HBMWIRE_TRY(connection.connect(connection.local()));
  const auto bytes = pattern(100, 1);
  HBMWIRE_TRY(buffer.write(0, bytes, soon()));
  RemoteMemory target = shared.remote(nic);
  target.address += 5000;
  HBMWIRE_TRY(connection.post_write(0, {&buffer.region(), 0, 100}, target));
  HBMWIRE_TRY(connection.wait(soon()));
  std::vector<std::byte> back(100);
  HBMWIRE_TRY(buffer.read(5000, back, soon()));
  EXPECT_EQ(back, bytes);
  return {};
}

/// Lets each call of the library fail in turn. Returns the number of lives that failed.
int sweep(const MemorySubject& subject, const std::string& library) {
  const int descriptors = open_descriptors();
  const int mappings = file_mappings();
  int failures = 0;
  for (long n = 0; n < kMostCalls; ++n) {
    fail_nth_call(library, n, EIO);
    const auto result = life_of_a_buffer(subject);
    const long counted = fail_nth_call(library, -1, 0);
    EXPECT_EQ(live_objects(), "") << "after call " << n << " failed";
    EXPECT_EQ(open_descriptors(), descriptors) << "after call " << n << " failed";
    EXPECT_LE(file_mappings(), mappings + 2) << "after call " << n << " failed";
    if (counted <= n) {
      EXPECT_TRUE(result) << describe(result.error());
      return failures;
    }
    // The last calls release resources. Their failures are only logged, since there is no caller to
    // return them to.
    if (!result) {
      ++failures;
      EXPECT_FALSE(describe(result.error()).empty());
    }
  }
  ADD_FAILURE() << "the sweep did not end";
  return failures;
}

}  // namespace

/// The n-th call fails, for n = 0, 1, ... until no call is left to fail. Each failure is an error
/// value, and leaves nothing behind.
TEST_P(MemorySweep, EachFailureLeavesNothingBehind) {
  // Afterwards libraries are loaded, and lazily made objects and the emulated NIC's permanent
  // mappings exist.
  for (int i = 0; i < 10; ++i) must(life_of_a_buffer(GetParam()));
  EXPECT_EQ(live_objects(), "");
  for (const std::string& library : GetParam().libraries) {
    SCOPED_TRACE(library);
    EXPECT_GT(sweep(GetParam(), library), 5) << "the sweep met fewer calls than the life has";
  }
}

void MemoryCycles::run(int cycles) {
  const auto once = [&] {
    const auto memory = make(8192);
    const auto region = nic().register_memory(memory, Access::remote_write);
    ASSERT_TRUE(region) << describe(region.error());
  };
  for (int i = 0; i < 100; ++i) once();
  const int descriptors = open_descriptors();
  const int mappings = file_mappings();
  const std::uint64_t memory = mapped_bytes();
  for (int i = 0; i < cycles && !HasFatalFailure(); ++i) once();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_LE(file_mappings(), mappings + 2);
  // A leak of one byte in each cycle exceeds this with a hundred thousand cycles. A new arena of
  // the allocator does not.
  EXPECT_LE(mapped_bytes(), memory + allocator_slack_bytes());
}

TEST_P(MemoryCycles, TenThousandCyclesLeaveNothing) { run(10'000); }

TEST_P(ManyMemoryCycles, AHundredThousandCyclesLeaveNothing) { run(100'000); }

}  // namespace hbmwire::test
