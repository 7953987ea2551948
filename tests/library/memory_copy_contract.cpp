// SPDX-License-Identifier: MIT
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"
#include "memory_contract.hpp"

// Copies between host and device, and many threads at the same time.
namespace hbmwire::test {

using namespace std::chrono_literals;

namespace {

// Larger than the bounce buffer of any domain.
constexpr std::size_t kLarge = (20U << 20U) + 5;

}  // namespace

TEST_P(MemoryContract, CopiesEveryByte) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, kLarge}) {
    const auto memory = make(size + 2);
    write(memory, 0, pattern(size + 2, 1));
    write(memory, 1, pattern(size, 2));
    auto expected = pattern(size + 2, 1);
    std::ranges::copy(pattern(size, 2), expected.begin() + 1);
    EXPECT_TRUE(same_bytes(read(memory, 0, size + 2), expected)) << size;
  }
}

TEST_P(MemoryContract, SaysThatItHasNoCopyEngine) {
  const auto memory = make(4096);
  MemoryDomain& domain = memory.domain();
  std::vector<std::byte> bytes(16);
  const auto in = domain.start_copy_in(memory.address(), bytes);
  const auto out = domain.start_copy_out(memory.address(), bytes);
  EXPECT_EQ(in.has_value(), has_engine());
  EXPECT_EQ(out.has_value(), has_engine());
  if (has_engine()) return;
  EXPECT_EQ(in.error().code, Errc::not_supported);
  EXPECT_EQ(out.error().code, Errc::not_supported);
}

TEST_P(MemoryContract, CopiesInTheOrderInWhichTheyWereStarted) {
  if (!has_engine()) return;  // SaysThatItHasNoCopyEngine tests this case
  const auto memory = make(kLarge);
  MemoryDomain& domain = memory.domain();
  std::vector<std::byte> got(kLarge);
  const auto first = pattern(kLarge, 1);
  const auto second = pattern(kLarge / 2, 2);
  {
    auto one = take(domain.start_copy_in(memory.address(), first));
    auto two = take(domain.start_copy_in(memory.address(), second));
    auto three = take(domain.start_copy_out(memory.address(), got));
    must(three.wait(soon()));
    must(two.wait(soon()));
    must(one.wait(soon()));
  }
  auto expected = first;
  std::ranges::copy(second, expected.begin());
  EXPECT_TRUE(same_bytes(got, expected));
}

TEST_P(MemoryContract, CopiesWithinItsDeviceIfItSaysSo) {
  const auto from = make(kLarge + 2);
  const auto to = make(kLarge + 3);
  MemoryDomain& domain = to.domain();
  const std::string_view engine = domain.copy_engine();
  const bool has_own = GetParam().type == MemoryType::host || (!engine.empty() && engine != "CPU");
  EXPECT_EQ(domain.copies_from(from.domain()), has_own);
  if (!has_own) {
    const auto refused = domain.start_copy_from(from.domain(), from.address(), to.address(), 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::not_supported) << describe(refused.error());
    return;
  }
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4097}, kLarge}) {
    write(from, 0, pattern(kLarge + 2, 1));
    write(to, 0, pattern(kLarge + 3, 2));
    auto copy =
        take(domain.start_copy_from(from.domain(), from.address() + 1, to.address() + 2, size));
    must(copy.wait(soon()));
    auto expected = pattern(kLarge + 3, 2);
    std::copy_n(pattern(kLarge + 2, 1).begin() + 1, size, expected.begin() + 2);
    EXPECT_TRUE(same_bytes(read(to, 0, kLarge + 3), expected)) << size;
    EXPECT_TRUE(same_bytes(read(from, 0, kLarge + 2), pattern(kLarge + 2, 1))) << size;
  }
  {
    const auto left =
        take(domain.start_copy_from(from.domain(), from.address(), to.address(), kLarge));
  }
  EXPECT_TRUE(same_bytes(read(to, 0, kLarge), pattern(kLarge, 1)))
      << "a dropped copy ends before the next one begins";
}

namespace {

/// Reads a byte of this process through the kernel, even while another thread writes it.
std::byte look_at(const std::byte* byte) {
  std::byte seen{};
  iovec here{.iov_base = &seen, .iov_len = 1};
  iovec there{.iov_base = const_cast<std::byte*>(byte), .iov_len = 1};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != 1)
    throw std::runtime_error("process_vm_readv");
  return seen;
}

}  // namespace

TEST_P(MemoryContract, CopiesPinnedHostMemoryByItself) {
  if (!has_engine()) return;
  const auto memory = make(kLarge);
  MemoryDomain& domain = memory.domain();
  std::vector<std::byte> host(kLarge);
  const auto pinned = domain.pin_host(host);
  ASSERT_EQ(pinned.has_value(),
            domain.copy_engine() == "SynapseAI DMA" || domain.copy_engine() == "CUDA");
  if (!pinned) {
    EXPECT_EQ(pinned.error().code, Errc::not_supported) << describe(pinned.error());
    domain.unpin_host(host);
    return;
  }
  for (const std::size_t at : {std::size_t{0}, std::size_t{4097}, kLarge - 1}) {
    const auto again = domain.pin_host(std::span(host).subspan(at));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::invalid_argument);
  }
  ASSERT_FALSE(domain.pin_host({}));

  // Nothing polls the copy before its last byte is there. A copy through bounce memory would need
  // polls, and never end.
  const auto bytes = pattern(kLarge, 8);
  write(memory, 0, bytes);
  host.back() = ~bytes.back();
  {
    auto out = take(domain.start_copy_out(memory.address(), host));
    const auto deadline = Deadline::after(10s);
    while (look_at(&host.back()) != bytes.back()) ASSERT_FALSE(deadline.passed());
    must(out.wait(soon()));
  }
  EXPECT_TRUE(host == bytes);

  // Several copies use parts of the pinned memory at the same time.
  const auto other = pattern(kLarge, 9);
  host = other;
  {
    auto one = take(domain.start_copy_in(memory.address(), std::span(host).first(4097)));
    auto two = take(domain.start_copy_in(memory.address() + 4097, std::span(host).subspan(4097)));
    must(two.wait(soon()));
    must(one.wait(soon()));
  }
  EXPECT_TRUE(same_bytes(read(memory, 0, kLarge), other));
  domain.unpin_host(host);

  // After unpin_host() the memory is like any other, and can be pinned once more.
  must(domain.copy_out(memory.address(), host, soon()));
  must(domain.pin_host(host));
  domain.unpin_host(host);
}

TEST_P(MemoryContract, ADomainReleasesPinnedMemory) {
  std::vector<std::byte> host(4096);
  for (int life = 0; life < 2; ++life) {  // some drivers refuse to pin memory that is still pinned
    SCOPED_TRACE(life);
    {
      const auto memory = make(4096);
      const auto pinned = memory.domain().pin_host(host);
      if (life == 0 && !pinned) return;
      EXPECT_TRUE(pinned) << "pinned by the domain before";
    }
    domain_.reset();
    context_ = take(Context::create());
    if (GetParam().allocates) domain_ = take(context_.open(GetParam().type, GetParam().options));
  }
  // The domain must have released its pinned memory. Other drivers do not tell, but the emulated
  // ones count it.
  domain_.reset();
  context_ = take(Context::create());
  EXPECT_EQ(live_objects().find("host_mapping"), std::string::npos) << live_objects();
}

TEST_P(MemoryContract, TellsWhenACopyIsComplete) {
  if (!has_engine()) return;
  const auto memory = make(kLarge);
  const auto bytes = pattern(kLarge, 3);
  auto copy = take(memory.domain().start_copy_in(memory.address(), bytes));
  const auto deadline = Deadline::after(10s);
  while (!take(copy.poll())) ASSERT_FALSE(deadline.passed());
  EXPECT_TRUE(take(copy.poll())) << "and says so again";
  EXPECT_TRUE(same_bytes(read(memory, 0, kLarge), bytes));
}

TEST_P(MemoryContract, ACopyMayBeDestroyedWhileItGoesOn) {
  if (!has_engine()) return;
  const auto memory = make(kLarge);
  const auto expected = pattern(kLarge, 7);
  for (int i = 0; i < 3; ++i) {
    std::vector<std::byte> bytes(kLarge);
    static_cast<void>(take(memory.domain().start_copy_out(memory.address(), bytes)));
    std::memcpy(bytes.data(), expected.data(), kLarge);
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), kLarge), 0) << "the device still wrote";
  }
  write(memory, 0, pattern(100, 4));
  EXPECT_EQ(read(memory, 0, 100), pattern(100, 4));
}

TEST_P(MemoryContract, AWaitEndsAtItsDeadlineOrWhenCancelledAndTheCopyGoesOn) {
  if (!has_engine()) return;
  const auto memory = make(kLarge);
  const auto bytes = pattern(kLarge, 5);
  const Fd cancel(::eventfd(1, EFD_CLOEXEC));
  auto copy = take(memory.domain().start_copy_in(memory.address(), bytes));
  // The copy may already be complete, which is no error.
  if (const auto result = copy.wait({Deadline::after(0ns), -1}); !result) {
    EXPECT_EQ(result.error().code, Errc::timed_out) << describe(result.error());
  }
  if (const auto result = copy.wait({Deadline::after(10s), cancel.get()}); !result) {
    EXPECT_EQ(result.error().code, Errc::cancelled) << describe(result.error());
  }
  must(copy.wait(soon()));
  EXPECT_TRUE(same_bytes(read(memory, 0, kLarge), bytes));
}

TEST_P(MemoryContract, FlushesOrSaysThatANicHasTo) {
  const auto memory = make(4096);
  EXPECT_TRUE(memory.domain().flush());
}

namespace {

/// The currently allocated ranges of all threads.
class LiveRanges {
 public:
  void add(std::uint64_t address, std::uint64_t size) {
    const std::scoped_lock lock(mutex_);
    const auto after = ranges_.lower_bound(address);
    if (after != ranges_.end() && after->first < address + size) ++overlaps_;
    if (after != ranges_.begin() && std::prev(after)->first + std::prev(after)->second > address)
      ++overlaps_;
    ranges_[address] = size;
  }

  void remove(std::uint64_t address) {
    const std::scoped_lock lock(mutex_);
    ranges_.erase(address);
  }

  [[nodiscard]] int overlaps() {
    const std::scoped_lock lock(mutex_);
    return overlaps_;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;
  int overlaps_ = 0;
};

/// One life of memory among those of other threads. Returns null, or the fault.
const char* live_once(const Context& context, const Allocation& memory, bool exports) {
  MemoryDomain& domain = memory.domain();
  const std::uint64_t half = memory.address() + memory.size_bytes() / 2;
  const auto direct = domain.find(half, 1);
  if (!direct || direct->base_address != memory.address()) return "the domain did not find it";
  const auto found = context.find(half, 1);
  if (!found || found->generation != direct->generation) return "the context did not find it";
  const auto range = domain.export_dmabuf(half, 1);
  if (range.has_value() != exports) return "the export";
  if (exports && range->address() != half) return "the export's address";
  return nullptr;
}

}  // namespace

TEST_P(MemoryContract, ServesManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  LiveRanges live;
  std::atomic<int> failures{0};
  const auto work = [&](std::uint64_t seed) {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      const std::uint64_t size = 1 + (seed * 7919 + i * 104'729) % 50'000;
      const Allocation memory = make(size, seed + i);
      live.add(memory.address(), size);
      if (const char* what = live_once(context_, memory, GetParam().exports)) {
        ADD_FAILURE() << what;
        ++failures;
      }
      live.remove(memory.address());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  }
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(live.overlaps(), 0);
}

}  // namespace hbmwire::test
