// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <functional>

#include "hbmwire/fd.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "emulated_hooks.hpp"
#include "registration_cache_fixture.hpp"

// Many registrations with two NICs, after which descriptors, the NICs' objects, mappings and memory
// are as before. Built twice: with HBMWIRE_CYCLES for the fast suite and for the full one.
namespace hbmwire::test {
namespace {

// A sanitizer makes each cycle more than ten times slower, but finds leaks at once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kCycles = HBMWIRE_CYCLES / 20;
#else
constexpr int kCycles = HBMWIRE_CYCLES;
#endif
// Cycles with an export take the longest.
constexpr int kExports = kCycles / 5;
constexpr int kWarmUp = 1000;

/// Resident memory without that shared with the hardware: the emulated NIC touches all of its table
/// of keys in the end.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::uint64_t kib = 0;
    if (word == "RssAnon:" && file >> kib) return kib << 10U;
  }
  ADD_FAILURE() << "/proc/self/status has no RssAnon";
  return 0;
}

int mappings() {
  std::ifstream file("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

/// The resources of this process.
struct Holdings {
  int descriptors = open_descriptors();
  std::string objects = live_objects();
  int mapped = mappings();
  std::uint64_t mapped_memory = mapped_bytes();
  std::uint64_t resident = resident_bytes();
};

class RegistrationCycles : public CacheFixture {
 protected:
  static constexpr std::uint64_t kPieceBytes = 8192;
  static constexpr int kPieces = 64;

  /// Calls `once(i)` for i = 0 to `cycles` - 1, after a few calls to warm up. `settle` releases
  /// objects that are kept on purpose.
  static void run(int cycles, const std::function<void(int)>& once,
                  const std::function<void()>& settle) {
    for (int i = 0; i < kWarmUp && !HasFatalFailure(); ++i) once(i);
    settle();
    const Holdings before;
    for (int i = 0; i < cycles && !HasFatalFailure(); ++i) once(i);
    settle();
    const Holdings after;
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_EQ(after.objects, before.objects);
    // An allocator's arena adds a mapping or two. One leaked mapping per cycle would be far more.
    EXPECT_LE(after.mapped, before.mapped + 8);
    EXPECT_LE(after.mapped_memory, before.mapped_memory + allocator_slack_bytes());
    EXPECT_LE(after.resident, before.resident + allocator_slack_bytes());
  }

  void run_with_nics(int cycles, const Allocation& memory) const {
    run(
        cycles,
        [&](int /*cycle*/) {
          const auto region = Nic::register_memory(nics_, memory, kAll);
          ASSERT_TRUE(region) << describe(region.error());
        },
        [] {});
  }

  /// Gets pieces in turn, with room for a quarter of them: each is a miss, and evicts another one.
  using GetPiece = std::function<Result<RegistrationLease>(const RegistrationCache&, int piece)>;

  void run_with_cache(int cycles, const GetPiece& get_piece) const {
    RegistrationOptions options;
    options.whole = RegistrationOptions::Whole::off;
    options.max_regions = nics_.size() * kPieces / 4;
    const RegistrationCache cache = make_cache(options);
    run(
        cycles,
        [&](int cycle) {
          const auto lease = get_piece(cache, cycle % kPieces);
          ASSERT_TRUE(lease) << describe(lease.error());
        },
        [&] {
          cache.drop_unused();
          EXPECT_EQ(cache.statistics().regions, 0U);
        });
    const RegistrationStatistics statistics = cache.statistics();
    EXPECT_EQ(statistics.misses, static_cast<std::uint64_t>(kWarmUp + cycles));
    EXPECT_GE(statistics.evictions + 2 * kPieces, statistics.misses);
    EXPECT_EQ(statistics.not_kept, 0U);
    EXPECT_EQ(statistics.memory_regions, 0U);
    EXPECT_EQ(statistics.dmabufs, 0U);
  }
};

TEST_F(RegistrationCycles, HostMemoryLeaksNothing) {
  run_with_nics(kCycles, allocate(MemoryType::host, kPieceBytes));
}

TEST_F(RegistrationCycles, CardMemoryLeaksNothing) {
  run_with_nics(kExports, allocate(MemoryType::gaudi, kPieceBytes));
}

TEST_F(RegistrationCycles, WatchedMemoryThroughAnEvictingCacheLeaksNothing) {
  constexpr std::uint64_t kBytes = kPieces * 2 * kPieceBytes;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  const auto base = std::bit_cast<std::uint64_t>(memory);
  run_with_cache(kCycles, [&](const RegistrationCache& cache, int piece) {
    return cache.get(base + static_cast<std::uint64_t>(piece) * 2 * kPieceBytes, kPieceBytes, kAll);
  });
  ::munmap(memory, kBytes);
}

TEST_F(RegistrationCycles, CardMemoryThroughAnEvictingCacheLeaksNothing) {
  const Allocation memory = allocate(MemoryType::gaudi, kPieces * 2 * kPieceBytes);
  run_with_cache(kExports, [&](const RegistrationCache& cache, int piece) {
    return cache.get(memory.address() + static_cast<std::uint64_t>(piece) * 2 * kPieceBytes,
                     kPieceBytes, kAll);
  });
}

TEST_F(RegistrationCycles, DmabufsThroughAnEvictingCacheLeakNothing) {
  std::vector<Fd> files;
  for (int i = 0; i < kPieces; ++i) files.push_back(make_dmabuf(kPieceBytes));
  run_with_cache(kExports, [&](const RegistrationCache& cache, int piece) {
    return cache.get(DmabufMemory{.fd = files.at(static_cast<std::size_t>(piece)).get(),
                                  .length_bytes = kPieceBytes},
                     kAll);
  });
}

}  // namespace
}  // namespace hbmwire::test
