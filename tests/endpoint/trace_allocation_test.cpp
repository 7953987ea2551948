// SPDX-License-Identifier: MIT
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "hbmwire/memory_key.hpp"
#include "hbmwire/trace.hpp"

#include "ends.hpp"
#include "failing_allocations.hpp"

// Whichever allocation for a trace fails, the trace does not begin, or lacks a transfer and says
// so.
namespace hbmwire::test {
namespace {

class TraceAllocations : public ::testing::Test {
 protected:
  TraceAllocations() { std::filesystem::create_directory(folder_); }

  ~TraceAllocations() override { std::filesystem::remove_all(folder_); }

  void puts(int count) {
    for (int i = 0; i < count; ++i)
      good(value(ends_.a->put(memory_.slice(0, 8), remote_.slice(0, 8))).wait(10s));
  }

  [[nodiscard]] std::string contents() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("trace-allocations-" + std::to_string(::getpid()));
  std::string file_ = folder_ / "a-name-that-is-too-long-to-lie-in-a-string.json";
  Ends ends_;
  Memory memory_{ends_.context, MemoryType::host, 4096};
  MemoryKey key_ = value(MemoryKey::pack(memory_.region()));
  RemoteRegion remote_ = value(ends_.a->remote(value(RemoteKey::unpack(key_.bytes()))));
};

TEST_F(TraceAllocations, AnAllocationThatFailsAtTheStartLeavesNoFile) {
  constexpr long kMost = 1000;
  const TraceOptions options{.file = file_};
  for (long nth = 1; nth < kMost; ++nth) {
    FailingAllocations::arm(nth, false);
    auto trace = Trace::start(options);
    const bool failed = FailingAllocations::failed();
    FailingAllocations::disarm();
    if (!trace) {
      EXPECT_EQ(trace.error().code, Errc::exhausted) << describe(trace.error());
      EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "allocation " << nth;
      continue;
    }
    puts(2);
    EXPECT_EQ(value(trace->stop()).transfers, 2U);
    std::filesystem::remove(trace->file());
    if (!failed) return;
  }
  ADD_FAILURE() << "there was no end of allocations";
}

TEST_F(TraceAllocations, AnAllocationThatFailsLaterCostsATransferAtMost) {
  constexpr int kPuts = 4;
  for (long nth = 1; nth < 60; ++nth) {
    Trace trace = value(Trace::start({.file = file_}));
    FailingAllocations::arm(nth, false);
    puts(kPuts);
    const auto counts = trace.stop();
    FailingAllocations::disarm();
    ASSERT_TRUE(counts) << describe(counts.error());
    EXPECT_EQ(counts->transfers + counts->dropped_full + counts->dropped_busy, 1ULL * kPuts);
    EXPECT_GE(counts->transfers + 1, 1ULL * kPuts) << "allocation " << nth;
    const std::string text = contents();
    EXPECT_TRUE(text.ends_with("\n]\n") || text.ends_with("},\n")) << text;
    std::filesystem::remove(file_);
  }
}

}  // namespace
}  // namespace hbmwire::test
