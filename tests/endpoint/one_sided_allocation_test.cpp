// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <array>
#include <string>

#include "hbmwire/memory_key.hpp"
#include "hbmwire/trace.hpp"

#include "counted_allocations.hpp"
#include "ends.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 4096;

/// Runs a million operations of `start`, with up to 64 in flight.
template <class Start>
int allocations_of(Ends& ends, Start start) {
  std::array<Transfer, 64> window;
  int failures = 0;
  CountedAllocations counted;
  for (unsigned i = 0; i < 1'000'000; ++i) {
    Transfer& transfer = window[i % window.size()];
    while (transfer && !transfer.done()) ends.a_worker.progress();
    auto next = start(i);
    if (next) {
      transfer = std::move(*next);
    } else {
      ++failures;
    }
  }
  for (Transfer& transfer : window) failures += transfer.wait(10s) ? 0 : 1;
  const int allocations = counted.stop();
  EXPECT_EQ(failures, 0);
  return allocations;
}

class OneSidedDataPath : public ::testing::Test {
 protected:
  Ends ends_;
  Memory memory_{ends_.context, MemoryType::host, kBytes};
  MemoryKey key_ = value(MemoryKey::pack(memory_.region()));
  RemoteRegion remote_ = value(ends_.a->remote(value(RemoteKey::unpack(key_.bytes()))));
};

TEST_F(OneSidedDataPath, PutsAndGetsAllocateNothing) {
  EXPECT_EQ(allocations_of(ends_,
                           [&](unsigned i) {
                             const Slice here = memory_.slice(64, 8);
                             const RemoteSlice there = remote_.slice(128, 8);
                             return i % 2 == 0 ? ends_.a->put(here, there)
                                               : ends_.a->get(here, there);
                           }),
            0);
}

TEST_F(OneSidedDataPath, ATraceAllocatesNothing) {
  const std::string file = ::testing::TempDir() + "one_sided_" + std::to_string(::getpid());
  Trace trace = value(Trace::start({.file = file, .most_bytes = 1 << 20}));
  EXPECT_EQ(allocations_of(ends_,
                           [&](unsigned i) {
                             const Slice here = memory_.slice(64, 8);
                             const RemoteSlice there = remote_.slice(128, 8);
                             return i % 2 == 0 ? ends_.a->put(here, there)
                                               : ends_.a->get(here, there);
                           }),
            0);
  const TraceCounts counts = value(trace.stop());
  EXPECT_EQ(counts.transfers + counts.dropped_busy + counts.dropped_full, 1'000'000U);
  ::unlink(file.c_str());
}

/// Puts that do not take the fast path: flushed, empty, fenced.
TEST_F(OneSidedDataPath, UnusualPutsAllocateNothing) {
  EXPECT_EQ(allocations_of(ends_,
                           [&](unsigned i) {
                             const std::uint64_t bytes = i % 3 == 0 ? 0 : 8;
                             if (i % 8 == 0 && !ends_.a->fence()) ADD_FAILURE();
                             return ends_.a->put(memory_.slice(64, bytes),
                                                 remote_.slice(128, bytes),
                                                 {.level = i % 2 == 0 ? CompletionLevel::visible
                                                                      : CompletionLevel::arrived});
                           }),
            0);
}

}  // namespace
}  // namespace hbmwire::test
