// SPDX-License-Identifier: MIT
#include "allocation_sweep.hpp"

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "tests/library/emulated_hooks.hpp"
#include "tests/support/open_descriptors.hpp"

namespace hbmwire::test {
namespace {

// A life takes some ten milliseconds, or some hundred if its connection breaks.
constexpr unsigned kLongestLife_s = 60;

std::atomic<long> failing_now{0};

/// Prints the place where an exception met a noexcept function.
[[noreturn]] void tell_where() {
  FailingAllocations::disarm();
  std::fprintf(stderr, "std::terminate() with allocation %ld failing, by\n", failing_now.load());
  void* frames[48];
  const int count = ::backtrace(frames, 48);
  ::backtrace_symbols_fd(frames, count, STDERR_FILENO);
  std::_Exit(3);
}

/// HBMWIRE_SWEEP_STRIDE, or `otherwise`.
long stride_or(long otherwise) {
  const char* const text = std::getenv("HBMWIRE_SWEEP_STRIDE");
  return text == nullptr ? otherwise : std::max(1L, std::strtol(text, nullptr, 10));
}

/// HBMWIRE_SWEEP_FIRST, or `otherwise`.
long first_or(long otherwise) {
  const char* const text = std::getenv("HBMWIRE_SWEEP_FIRST");
  return text == nullptr ? otherwise : std::max(1L, std::strtol(text, nullptr, 10));
}

/// Returns whether the life reached the allocation that was to fail.
bool run(const std::function<void(FailingLife&)>& life, long nth, bool for_good) {
  failing_now = nth;
  ::alarm(kLongestLife_s);
  FailingLife one(nth, for_good);
  life(one);
  ::alarm(0);
  return one.met();
}

/// The resources of the process, to be compared before and after a life.
struct Holdings {
  std::int64_t allocations;
  int descriptors;
  std::string objects;
};

void expect_nothing_left(const Holdings& before, long nth) {
  // Threads of the process release their resources a little later.
  const Deadline longest = Deadline::after(2s);
  while (FailingAllocations::live() > before.allocations && !longest.passed())
    std::this_thread::sleep_for(1ms);
  const std::int64_t allocations = FailingAllocations::live();
  EXPECT_LE(allocations, before.allocations) << "after allocation " << nth << " failed";
  EXPECT_EQ(live_nic_objects(), before.objects) << "after allocation " << nth << " failed";
  EXPECT_LE(open_descriptors(), before.descriptors) << "after allocation " << nth << " failed";
}

}  // namespace

void sweep_allocations(const std::function<void(FailingLife&)>& life, long stride) {
  stride = stride_or(stride);
  std::set_terminate(tell_where);
  set_log_sink([](LogLevel, std::string_view) {});
  // Objects that exist once per process have all been made after a few lives.
  constexpr long kNever = 1L << 60;
  {
    SCOPED_TRACE("without a failure");
    for (int i = 0; i < 3; ++i) run(life, kNever, false);
    run(life, 1, true);
  }
  if (::testing::Test::HasFailure()) return;
  const std::string objects = live_nic_objects();
  const int descriptors = open_descriptors();
  // One more for the copy of `objects` that is passed on below.
  const std::int64_t allocations = FailingAllocations::live() + 1;
  long met = 0;
  for (long nth = first_or(1); !::testing::Test::HasFailure(); nth += stride) {
    bool either = false;
    for (const bool for_good : {false, true}) {
      {
        SCOPED_TRACE("allocation " + std::to_string(nth) + (for_good ? ", and all behind it" : ""));
        either = run(life, nth, for_good) || either;
      }
      expect_nothing_left({allocations, descriptors, objects}, nth);
    }
    if (!either) break;
    ++met;
  }
  std::printf("%ld allocations failed\n", met);
  EXPECT_GE(met, 3) << "the life meets next to no allocation";
  set_log_sink({});
}

}  // namespace hbmwire::test
