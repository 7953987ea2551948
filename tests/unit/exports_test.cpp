// SPDX-License-Identifier: MIT
#include "registration/exports.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/memory_domain.hpp"

namespace hbmwire::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSize = 4096;
constexpr Access kBoth = Access::remote_write | Access::remote_read;

Allocation memory_of_host() {
  auto memory = Context::create()->allocate(MemoryType::host, kSize);
  if (!memory) throw std::runtime_error(describe(memory.error()));
  return *memory;
}

Export export_of(const Allocation& memory, Access access = kBoth) {
  return Export({.allocation = memory,
                 .address = memory.address(),
                 .length_bytes = kSize,
                 .access = access,
                 .path = Path::host,
                 .expires = {}});
}

Result<ExportHold> take_all(std::uint64_t token, const Allocation& memory) {
  return ExportHold::take(token, Access::remote_write, memory.address(), kSize);
}

/// The copy of an engine. It ends when told to, or by itself after some polls.
class SlowCopy final : public PendingCopy::Work {
 public:
  struct Told {
    std::atomic<bool> over{false};
    std::atomic<bool> fails{false};
    std::atomic<int> looks{0};
    std::atomic<bool> gone{false};
  };

  SlowCopy(Told& told, int looks) : told_(told), looks_(looks) {}

  SlowCopy(const SlowCopy&) = delete;
  SlowCopy& operator=(const SlowCopy&) = delete;

  ~SlowCopy() override {
    told_.over = true;  // as if the destructor had waited for the end
    told_.gone = true;
  }

  Result<bool> poll() override {
    if (++told_.looks < looks_ && !told_.over) return false;
    told_.over = true;
    if (!told_.fails) return true;
    return tl::make_unexpected(make_error(Errc::exhausted, Stage::copy, "the engine broke"));
  }

 private:
  Told& told_;
  int looks_;
};

// As a number of polls: more than any test takes, so the copy ends only when it is told to.
constexpr int kWhenTold = 1 << 30;

PendingCopy slow_copy(SlowCopy::Told& told, int looks) {
  return PendingCopy(std::make_unique<SlowCopy>(told, looks));
}

TEST(Exports, AreFoundByTheirTokenAlone) {
  const Allocation memory = memory_of_host();
  const Export exported = export_of(memory);
  EXPECT_NE(exported.token(), 0U);
  auto hold = take_all(exported.token(), memory);
  ASSERT_TRUE(hold) << describe(hold.error());
  EXPECT_EQ(hold->memory().address, memory.address());
  EXPECT_EQ(hold->memory().allocation.address(), memory.address());
  for (const std::uint64_t other : {std::uint64_t{0}, exported.token() + 1, ~exported.token()}) {
    const auto refused = take_all(other, memory);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied);
  }
}

TEST(Exports, HaveTokensOfTheirOwn) {
  const Allocation memory = memory_of_host();
  std::set<std::uint64_t> tokens;
  std::vector<Export> exports;
  std::uint64_t all_ones = ~std::uint64_t{0};
  std::uint64_t any_one = 0;
  for (int i = 0; i < 1000; ++i) {
    tokens.insert(exports.emplace_back(export_of(memory)).token());
    all_ones &= exports.back().token();
    any_one |= exports.back().token();
  }
  EXPECT_EQ(tokens.size(), 1000U);
  EXPECT_EQ(all_ones, 0U) << "each bit is drawn";
  EXPECT_EQ(any_one, ~std::uint64_t{0}) << "each bit is drawn";
}

TEST(Exports, GiveNoMoreThanTheirRangeAndAccess) {
  const Allocation memory = memory_of_host();
  const Export exported = export_of(memory, Access::remote_read);
  const std::uint64_t first = memory.address();
  const auto code_of = [&](Access needed, std::uint64_t address,
                           std::uint64_t length) -> std::optional<Errc> {
    const auto hold = ExportHold::take(exported.token(), needed, address, length);
    if (hold) return std::nullopt;
    return hold.error().code;
  };
  EXPECT_EQ(code_of(Access::remote_read, first, kSize), std::nullopt);
  EXPECT_EQ(code_of(Access::remote_read, first + kSize - 1, 1), std::nullopt);
  EXPECT_EQ(code_of(Access::remote_write, first, 1), Errc::permission_denied);
  EXPECT_EQ(code_of(Access::remote_atomic, first, 8), Errc::permission_denied);
  EXPECT_EQ(code_of(Access::remote_read, first - 1, 1), Errc::invalid_argument);
  EXPECT_EQ(code_of(Access::remote_read, first, kSize + 1), Errc::invalid_argument);
  EXPECT_EQ(code_of(Access::remote_read, first + 1, ~std::uint64_t{0}), Errc::invalid_argument);
  EXPECT_EQ(code_of(Access::remote_read, ~std::uint64_t{0}, 2), Errc::invalid_argument);
}

TEST(Exports, EndWithTheirTime) {
  const Allocation memory = memory_of_host();
  const auto end = ExportedMemory::Clock::now() + 20ms;
  const Export exported({.allocation = memory,
                         .address = memory.address(),
                         .length_bytes = kSize,
                         .access = kBoth,
                         .path = Path::host,
                         .expires = end});
  const bool found = take_all(exported.token(), memory).has_value();
  EXPECT_TRUE(found || ExportedMemory::Clock::now() >= end) << "before its time";
  std::this_thread::sleep_until(end);
  EXPECT_EQ(take_all(exported.token(), memory).error().code, Errc::permission_denied)
      << "whether or not a timer has ended it";
}

TEST(Exports, LetGoOfTheMemoryAtTheirEnd) {
  Allocation memory = memory_of_host();
  MemoryDomain& domain = memory.domain();

  class Observer final : public MemoryObserver {
   public:
    void memory_gone(std::uint64_t /*address*/, std::uint64_t /*size_bytes*/,
                     const std::shared_ptr<const void>& /*memory*/) noexcept override {
      gone = true;
    }

    bool gone = false;
  };

  const auto observer = std::make_shared<Observer>();
  domain.observe(observer);
  const auto keeps_domain = domain.shared_from_this();
  const std::uint64_t address = memory.address();
  Export exported = export_of(memory);
  { const Allocation goes = std::move(memory); }
  EXPECT_FALSE(observer->gone);
  exported.end();
  EXPECT_TRUE(observer->gone);
  EXPECT_FALSE(ExportHold::take(exported.token(), kBoth, address, 1));
  exported.end();
}

// The thread that ends a key may be the one that would have to poll for the copy's end.
TEST(Exports, EndingOneWaitsForAnEngineByItself) {
  const Allocation memory = memory_of_host();
  for (const bool fails : {false, true}) {
    Export exported = export_of(memory);
    SlowCopy::Told told;
    told.fails = fails;
    auto hold = take_all(exported.token(), memory);
    ASSERT_TRUE(hold);
    hold->watch(slow_copy(told, 20));
    EXPECT_FALSE(*hold->poll());
    exported.end();
    EXPECT_TRUE(told.over);
    EXPECT_FALSE(take_all(exported.token(), memory));
    for (int i = 0; i < 2; ++i) {
      const auto polled = hold->poll();
      ASSERT_EQ(polled.has_value(), !fails) << "the holder learns how it ended";
      if (fails) {
        EXPECT_EQ(polled.error().code, Errc::exhausted);
      } else {
        EXPECT_TRUE(*polled);
      }
    }
  }
}

TEST(Exports, EndingOneWaitsForAHolderWithoutAnEngine) {
  const Allocation memory = memory_of_host();
  for (const bool watches : {false, true}) {
    Export exported = export_of(memory);
    SlowCopy::Told told;
    std::atomic<bool> moved{false};
    std::atomic<bool> held{false};
    std::thread holder([&] {
      auto hold = take_all(exported.token(), memory);
      held = hold.has_value();
      held.notify_all();
      // The longer, the more likely the test fails if end() does not wait.
      std::this_thread::sleep_for(20ms);
      moved = true;
      if (watches) hold->watch(slow_copy(told, 3));
    });
    held.wait(false);
    exported.end();
    EXPECT_TRUE(moved);
    EXPECT_EQ(told.over, watches);
    holder.join();
  }
}

TEST(Exports, AHoldThatGoesWaitsForItsEngine) {
  const Allocation memory = memory_of_host();
  Export exported = export_of(memory);
  SlowCopy::Told told;
  {
    auto hold = take_all(exported.token(), memory);
    ASSERT_TRUE(hold);
    hold->watch(slow_copy(told, kWhenTold));
    const ExportHold moved = std::move(*hold);
    EXPECT_FALSE(told.gone);
  }
  EXPECT_TRUE(told.gone);
  exported.end();
}

// A polling thread does not wait for another thread that waits for the engine.
TEST(Exports, AHolderPollsWhileTheKeyEnds) {
  const Allocation memory = memory_of_host();
  Export exported = export_of(memory);
  SlowCopy::Told told;
  auto hold = take_all(exported.token(), memory);
  ASSERT_TRUE(hold);
  hold->watch(slow_copy(told, kWhenTold));
  std::thread ender([&] { exported.end(); });
  while (told.looks < 5) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) {
    const auto polled = hold->poll();
    ASSERT_TRUE(polled);
    EXPECT_FALSE(*polled);
  }
  told.over = true;
  ender.join();
  EXPECT_TRUE(*hold->poll());
}

/// Threads write through holds while others end the keys. After an end no byte may change.
TEST(Exports, NoByteChangesAfterAnEnd) {
  const Allocation memory = memory_of_host();
  auto* const bytes = std::bit_cast<std::uint64_t*>(memory.address());
  constexpr int kLives = 320;
  std::atomic<std::uint64_t> token{0};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> writes{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] {
      for (std::uint64_t value = 1; !stop; ++value) {
        auto hold = take_all(token, memory);
        if (!hold) continue;
        std::atomic_ref<std::uint64_t>(bytes[i]).store(value, std::memory_order_relaxed);
        SlowCopy::Told told;
        if (value % 2 == 0) {
          hold->watch(slow_copy(told, 3));
          while (!*hold->poll()) std::this_thread::yield();
        }
        ++writes;
      }
    });
  }
  for (int life = 0; life < kLives; ++life) {
    Export exported = export_of(memory);
    token = exported.token();
    const std::uint64_t before = writes;
    // A write must get through in some lives, and two threads end the same key in others.
    if (life % 16 == 0) {
      while (writes == before) std::this_thread::yield();
    }
    std::thread another;
    if (life % 8 == 0) another = std::thread([&] { exported.end(); });
    exported.end();
    std::array<std::uint64_t, 2> seen{};
    // ThreadSanitizer finds a data race here if a thread still writes.
    for (std::size_t i = 0; i < 2; ++i) seen.at(i) = bytes[i];
    std::this_thread::yield();
    for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(bytes[i], seen.at(i)) << "in life " << life;
    if (another.joinable()) another.join();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_GE(writes, std::uint64_t{kLives} / 16);
}

TEST(Exports, AChildHasNoneOfItsParentsExports) {
  const Allocation memory = memory_of_host();
  Export exported = export_of(memory);
  auto hold = take_all(exported.token(), memory);
  ASSERT_TRUE(hold);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = !take_all(exported.token(), memory);
    exported.end();  // must not wait: the hold belongs to the parent
    Export own = export_of(memory);
    good = good && own.token() != exported.token() && take_all(own.token(), memory);
    own.end();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(take_all(exported.token(), memory)) << "the child's end was not the parent's";
}

}  // namespace
}  // namespace hbmwire::detail
