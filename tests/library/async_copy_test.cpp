// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "helpers.hpp"
#include "tests/support/bytes.hpp"

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using Owner = MemoryOptions::Owner;
using test::pattern;
using test::same_bytes;
using test::soon;

// More than the host memory that the library pins for copies, and no multiple of a piece.
constexpr std::size_t kLarge = 20'000'001;

/// Sets the time of each DMA job of SynapseAI, in addition to the copy itself.
void set_dma_delay(const char* microseconds) {
  if (microseconds == nullptr) {
    ::unsetenv("HBMWIRE_EMULATION_SYNAPSE_DELAY_US");
  } else {
    ::setenv("HBMWIRE_EMULATION_SYNAPSE_DELAY_US", microseconds, 1);
  }
}

std::shared_ptr<MemoryDomain> open_card(Owner owner) {
  const auto context = Context::create();
  EXPECT_TRUE(context) << describe(context.error());
  auto domain = context->open(MemoryType::gaudi, {.device = {}, .owner = owner});
  EXPECT_TRUE(domain) << describe(domain.error());
  return *domain;
}

Buffer make_buffer(const std::shared_ptr<MemoryDomain>& domain, std::uint64_t size) {
  const auto nic = Nic::open();
  auto buffer = Buffer::create(domain, *nic, size, Access::remote_write | Access::remote_read);
  EXPECT_TRUE(buffer) << describe(buffer.error());
  return std::move(*buffer);
}

class AsyncCopy : public testing::TestWithParam<Owner> {
 protected:
  ~AsyncCopy() override { set_dma_delay(nullptr); }
};

TEST_P(AsyncCopy, CopiesOfOneBufferAreDoneInTheirOrder) {
  auto buffer = make_buffer(open_card(GetParam()), kLarge);
  const auto first = pattern(kLarge, 1);
  const auto second = pattern(kLarge / 2, 2);
  std::vector<std::byte> got(kLarge);
  auto write_all = buffer.start_write(0, first);
  auto write_part = buffer.start_write(1000, second);
  auto read_all = buffer.start_read(0, got);
  ASSERT_TRUE(write_all && write_part && read_all);
  const auto done = read_all->wait(soon());
  ASSERT_TRUE(done) << describe(done.error());
  auto expected = first;
  std::copy(second.begin(), second.end(), expected.begin() + 1000);
  EXPECT_TRUE(same_bytes(got, expected));
  EXPECT_TRUE(write_all->wait(soon()));
  EXPECT_TRUE(write_part->wait(soon()));
}

TEST_P(AsyncCopy, GoesOnWhenTheBufferIsGone) {
  const auto domain = open_card(GetParam());
  std::vector<std::byte> got(kLarge);
  std::optional<PendingCopy> copy;
  {
    auto buffer = make_buffer(domain, kLarge);
    ASSERT_TRUE(buffer.write(0, pattern(kLarge, 3), soon()));
    auto started = buffer.start_read(0, got);
    ASSERT_TRUE(started);
    copy = std::move(*started);
  }
  const auto done = copy->wait(soon());
  ASSERT_TRUE(done) << describe(done.error());
  EXPECT_TRUE(same_bytes(got, pattern(kLarge, 3)));
  copy.reset();
  EXPECT_EQ(test::live_objects().find("export"), std::string::npos);
}

TEST_P(AsyncCopy, MayBeDestroyedAtAnyTimeAndTheHostsBytesWithIt) {
  auto buffer = make_buffer(open_card(GetParam()), kLarge);
  for (int i = 0; i < 20; ++i) {
    auto got = std::make_unique<std::vector<std::byte>>(kLarge / 4);
    auto copy = buffer.start_read(static_cast<std::uint64_t>(i), *got);
    ASSERT_TRUE(copy);
    if (i % 2 == 0) {
      ASSERT_TRUE(copy->poll());
    }
  }
  const auto last = pattern(kLarge, 5);
  ASSERT_TRUE(buffer.write(0, last, soon()));
  std::vector<std::byte> got(kLarge);
  ASSERT_TRUE(buffer.read(0, got, soon()));
  EXPECT_TRUE(got == last);
}

TEST_P(AsyncCopy, RangesThatLeaveTheBufferAndEmptyOnesNeedNoDevice) {
  auto buffer = make_buffer(open_card(GetParam()), 1000);
  std::vector<std::byte> bytes(10);
  EXPECT_FALSE(buffer.start_write(991, bytes));
  EXPECT_FALSE(buffer.start_read(~0ULL, bytes));
  auto nothing = buffer.start_read(1000, {});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(*nothing->poll());
}

INSTANTIATE_TEST_SUITE_P(BothOwners, AsyncCopy, testing::Values(Owner::synapse, Owner::hl_thunk),
                         [](const auto& test) {
                           return test.param == Owner::synapse ? "Synapse" : "HlThunk";
                         });

/// Only a card with an engine can work alone for a while.
class SynapseCopy : public testing::Test {
 protected:
  SynapseCopy() { set_dma_delay("20000"); }

  ~SynapseCopy() override { set_dma_delay(nullptr); }
};

TEST_F(SynapseCopy, StartingAndPollingDoNotWait) {
  const auto card = open_card(Owner::synapse);
  const auto memory = card->allocate(kLarge);
  const auto bytes = pattern(kLarge, 1);
  const auto begin = Deadline::Clock::now();
  auto copy = card->start_copy_in(memory->address(), bytes);
  ASSERT_TRUE(copy) << describe(copy.error());
  EXPECT_FALSE(*copy->poll());
  EXPECT_LT(Deadline::Clock::now() - begin, 5s) << "not the time of all its pieces";
  ASSERT_TRUE(copy->wait(soon()));
  EXPECT_GE(Deadline::Clock::now() - begin, 40ms) << "ten pieces, four at a time, 20 ms each";
  std::vector<std::byte> got(kLarge);
  ASSERT_TRUE(card->copy_out(memory->address(), got, soon()));
  EXPECT_TRUE(got == bytes);
}

TEST_F(SynapseCopy, DeadlinesAndCancellationEndTheWaitAndNotTheCopy) {
  const auto card = open_card(Owner::synapse);
  const auto memory = card->allocate(4096);
  const auto bytes = pattern(4096, 2);
  auto copy = card->start_copy_in(memory->address(), bytes);
  ASSERT_TRUE(copy);
  const auto late = copy->wait({Deadline::after(1ms), -1});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::timed_out);
  EXPECT_EQ(late.error().stage, Stage::copy);
  const Fd cancel(::eventfd(1, EFD_CLOEXEC));
  const auto cancelled = copy->wait({Deadline::after(20s), cancel.get()});
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Errc::cancelled);
  ASSERT_TRUE(copy->wait(soon()));
}

TEST_F(SynapseCopy, ADomainWithACopyUnderWayIsLeftInOrder) {
  {
    auto card = open_card(Owner::synapse);
    const auto memory = card->allocate(kLarge);
    const auto bytes = pattern(kLarge, 1);
    const auto copy = card->start_copy_in(memory->address(), bytes);
    ASSERT_TRUE(copy);
    card.reset();
  }
  EXPECT_EQ(test::live_objects(), "");
  EXPECT_TRUE(open_card(Owner::hl_thunk)) << "the card was given back";
}

/// Fails each call in turn in the middle of a copy. The error is decoded, and the engine still
/// works.
TEST(SynapseCopyFailures, TheEngineWorksAfterAFailedCall) {
  const auto card = open_card(Owner::synapse);
  const auto memory = card->allocate(kLarge);
  const auto bytes = pattern(kLarge, 1);
  ASSERT_TRUE(card->copy_in(memory->address(), bytes, soon()));
  const int descriptors = test::open_descriptors();
  int failures = 0;
  for (long n = 0; n < 60; ++n) {
    std::vector<std::byte> got(kLarge);
    test::fail_nth_call("gaudi", n, EIO);
    const auto result = card->copy_out(memory->address(), got, soon());
    const long counted = test::fail_nth_call("gaudi", -1, 0);
    if (!result) {
      ++failures;
      EXPECT_EQ(result.error().stage, Stage::copy);
      EXPECT_EQ(result.error().number_kind, NumberKind::syn_status);
    }
    ASSERT_TRUE(card->copy_out(memory->address(), got, soon())) << "after call " << n;
    // Not byte by byte: ThreadSanitizer would check each of 60 times 20 million accesses.
    ASSERT_EQ(std::memcmp(got.data(), bytes.data(), kLarge), 0) << "after call " << n;
    if (counted <= n) break;
  }
  EXPECT_GT(failures, 5);
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

}  // namespace
}  // namespace hbmwire
