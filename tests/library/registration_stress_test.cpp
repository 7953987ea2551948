// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "memory_contract.hpp"

// The classic bug of registration caches: memory is freed, other memory gets its address, and the
// NIC still writes to the old pages.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kBytes = 4 * kPage;

// ThreadSanitizer and AddressSanitizer make everything about ten times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 40;
#else
constexpr int kRounds = 400;
#endif
constexpr int kThreads = 4;

/// Bytes that differ in each round.
std::vector<std::byte> bytes_of(unsigned seed) {
  std::vector<std::byte> bytes(kBytes);
  unsigned value = seed * 2654435761U + 1;
  for (auto& byte : bytes)
    byte = static_cast<std::byte>((value = value * 1664525U + 1013904223U) >> 24U);
  return bytes;
}

void* pointer(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is what it is about.
  return reinterpret_cast<void*>(address);
}

/// Throws if a system call has failed.
void must_be(bool right) {
  if (!right) throw std::runtime_error("a system call fails");
}

/// One thread's memory of the application, which is mapped and unmapped at one address. Another
/// thread may get the address meanwhile; then this one uses another address.
class Memory {
 public:
  explicit Memory(bool shared) : shared_(shared), address_(map(0, 0)) {}

  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  ~Memory() { ::munmap(pointer(address_), kBytes); }

  [[nodiscard]] std::uint64_t address() const { return address_; }

  [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(pointer(address_)); }

  /// The number of ways in which change() replaces pages: without discards, and with them.
  static constexpr unsigned kWays = 3;
  static constexpr unsigned kWaysWithDiscards = 4;

  /// Replaces the pages in one of the ways 0 to kWaysWithDiscards - 1.
  void change(unsigned way) {
    switch (way) {
      case 0:
        must_be(::munmap(pointer(address_), kBytes) == 0);
        address_ = map(address_, MAP_FIXED_NOREPLACE);
        if (address_ == 0) address_ = map(0, 0);
        break;
      case 1:
        must_be(map(address_, MAP_FIXED) != 0);
        break;
      case 2: {
        void* const other = pointer(map(0, 0));
        must_be(::mremap(other, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(address_)) !=
                MAP_FAILED);
        break;
      }
      default:
        // A discard replaces a private page by another one. A shared page stays the same, so an
        // earlier registration of it is still right.
        must_be(::madvise(pointer(address_), kBytes, MADV_DONTNEED) == 0);
        break;
    }
  }

 private:
  /// Maps new pages at `address`, or anywhere if it is 0. Returns 0 if another thread has taken the
  /// address.
  [[nodiscard]] std::uint64_t map(std::uint64_t address, int flags) const {
    Fd file;
    if (shared_) {
      file = Fd(::memfd_create("hbmwire-stress", MFD_CLOEXEC));
      must_be(file && ::ftruncate(file.get(), kBytes) == 0);
    }
    flags |= shared_ ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void* const memory = ::mmap(pointer(address), kBytes, PROT_READ | PROT_WRITE, flags,
                                shared_ ? file.get() : -1, 0);
    if (memory == MAP_FAILED) return 0;
    return reinterpret_cast<std::uint64_t>(memory);
  }

  bool shared_;
  std::uint64_t address_;
};

/// A peer in another process, which writes with its NIC to the address that it gets.
class Writer {
 public:
  /// Forks, so a Writer must be made before the process opens anything or starts threads.
  Writer() {
    std::array<int, 2> ends{};
    must_be(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0);
    socket_ = Fd(ends[0]);
    Fd other(ends[1]);
    child_ = ::fork();
    if (child_ != 0) return;
    socket_.reset();
    try {
      serve(other.get());
    } catch (const std::exception& error) {
      ADD_FAILURE() << "the writer: " << error.what();
      ::_exit(1);
    }
    ::_exit(0);
  }

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  ~Writer() {
    socket_.reset();
    int status = 0;
    ::waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
  }

  void connect(Connection& connection) const {
    tell(socket_.get(), connection.local());
    must(connection.connect(hear<ConnectionAddress>(socket_.get())));
  }

  /// When this returns, the bytes have been written.
  void write(const RemoteMemory& target, unsigned seed) const {
    tell(socket_.get(), Order{target, seed});
    must_be(hear<unsigned>(socket_.get()) == seed);
  }

 private:
  struct Order {
    RemoteMemory target;
    unsigned seed = 0;
  };

  template <class T>
  static void tell(int socket, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    must_be(::send(socket, &value, sizeof(value), MSG_NOSIGNAL) == sizeof(value));
  }

  template <class T>
  static T hear(int socket) {
    T value{};
    must_be(::recv(socket, &value, sizeof(value), 0) == sizeof(value));
    return value;
  }

  static void serve(int socket) {
    const Context context = take(Context::create());
    const Nic nic = take(Nic::open("emu0"));
    const Allocation memory = take(take(context.open(MemoryType::host))->allocate(kBytes));
    const Region region = take(nic.register_memory(memory, Access::local_write));
    Connection connection = take(Connection::create(nic, {}));
    const auto peer = hear<ConnectionAddress>(socket);
    must(connection.connect(peer));
    tell(socket, connection.local());
    for (Order order; ::recv(socket, &order, sizeof(order), 0) == sizeof(order);) {
      const std::vector<std::byte> sent = bytes_of(order.seed);
      std::memcpy(pointer(memory.address()), sent.data(), sent.size());
      must(connection.post_write(1, {&region, 0, kBytes}, order.target));
      must_be(take(connection.wait({Deadline::after(std::chrono::seconds(20)), -1})).has_value());
      tell(socket, order.seed);
    }
  }

  Fd socket_;
  pid_t child_ = -1;
};

class RegistrationStress : public testing::TestWithParam<bool> {
 protected:
  /// Whether a thread gets an address only after the call that took it from another thread has
  /// returned.
  bool ordered_ = false;

  [[nodiscard]] RegistrationCache make_cache(const RegistrationOptions& options = {}) {
    context_.emplace(take(Context::create()));
    nic_.emplace(take(Nic::open("emu1")));
    return take(RegistrationCache::create(*context_, {*nic_}, options));
  }

  /// One round: the NIC's write arrives with a new registration and with one that was found. The
  /// key of a new registration must also differ: the emulated NIC looks up private memory, and
  /// memory mapped by an application, when it writes, while a real NIC uses the pages of the
  /// registration. Returns the number of faults.
  static int check(const Writer& writer, const RegistrationCache& cache, const Memory& memory,
                   unsigned seed, std::uint32_t& key) {
    const std::vector<std::byte> sent = bytes_of(seed);
    int wrong = 0;
    for (int use = 0; use != 2; ++use) {
      std::fill_n(memory.bytes(), kBytes, std::byte{0});
      const auto lease = take(cache.get(memory.address(), kBytes, kWrite));
      RemoteMemory target = lease.region().remote();
      if (use == 0) wrong += std::exchange(key, target.remote_key) == target.remote_key ? 1 : 0;
      target.address = lease.address();
      target.length_bytes = kBytes;
      writer.write(target, seed);
      wrong += std::equal(sent.begin(), sent.end(), memory.bytes()) ? 0 : 1;
      key = target.remote_key;
    }
    return wrong;
  }

  void run(const RegistrationCache& cache, unsigned ways, std::atomic<int>& wrong,
           unsigned thread) const {
    const Writer& writer = writers_.at(thread);
    Connection connection = take(Connection::create(*nic_, {}));
    writer.connect(connection);
    std::optional<Memory> place;
    {
      const std::scoped_lock lock(changing_);
      place.emplace(GetParam());
    }
    Memory& memory = *place;
    std::uint32_t key = 0;
    for (unsigned round = 0; round != kRounds; ++round) {
      wrong += check(writer, cache, memory, thread * kRounds + round, key);
      const std::scoped_lock lock(ordered_ ? changing_ : changing_of_.at(thread));
      memory.change((thread + round) % ways);
    }
  }

  /// Runs in kThreads threads. Returns the number of faults.
  [[nodiscard]] int run(const RegistrationCache& cache, unsigned ways = Memory::kWays) const {
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i != kThreads; ++i)
      threads.emplace_back([&, i] {
        try {
          run(cache, ways, wrong, i);
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      });
    threads.clear();
    return wrong;
  }

 private:
  std::array<Writer, kThreads> writers_;  // made before everything else
  mutable std::mutex changing_;
  mutable std::array<std::mutex, kThreads> changing_of_;
  std::optional<Context> context_;
  std::optional<Nic> nic_;
};

TEST_P(RegistrationStress, WritesArriveInTheCurrentMemory) {
  const RegistrationCache cache = make_cache();
  EXPECT_EQ(run(cache), 0);
  const RegistrationStatistics done = cache.statistics();
  EXPECT_GT(done.hits, std::uint64_t{kThreads} * kRounds / 4) << "nothing was cached";
  EXPECT_GT(done.invalidations, std::uint64_t{kThreads} * kRounds / 4);
  EXPECT_EQ(done.in_use, 0U);
}

// This test has no minimum of hits, because each discard keeps later registrations from being
// cached for a second.
TEST_P(RegistrationStress, WritesArriveThoughPagesAreDiscarded) {
  const RegistrationCache cache = make_cache();
  EXPECT_EQ(run(cache, Memory::kWaysWithDiscards), 0);
}

// In the other tests a thread may get an address before the call that unmapped it in another thread
// has returned. Here it may not, so the cache need not ask the kernel.
TEST_P(RegistrationStress, WritesArriveWithoutAskingTheKernelIfUnmappingIsOrdered) {
  ordered_ = true;
  const RegistrationCache cache = make_cache({.watch = RegistrationOptions::Watch::yes});
  EXPECT_EQ(run(cache), 0);
  EXPECT_GT(cache.statistics().hits, std::uint64_t{kThreads} * kRounds / 4) << "nothing was cached";
}

TEST_P(RegistrationStress, WithoutAWatchNothingIsKept) {
  const RegistrationCache cache = make_cache({.watch = RegistrationOptions::Watch::no});
  EXPECT_EQ(run(cache), 0);
  EXPECT_GE(cache.statistics().not_kept, std::uint64_t{kThreads} * kRounds);
}

// Only a few registrations are allowed, so that eviction for the budget happens beside removal with
// the memory. Each writing thread holds one nearly all the time, and nothing evicts that. Another
// thread uses more pieces in turn than the budget allows, with more room than the others can hold.
TEST_P(RegistrationStress, WritesArriveWhileOtherRegionsAreEvicted) {
  constexpr std::size_t kBudget = kThreads + 2;
  constexpr std::size_t kPieces = kBudget + 2;
  const RegistrationCache cache = make_cache({.max_regions = kBudget});
  std::array<std::optional<Memory>, kPieces> pieces;
  for (auto& piece : pieces) piece.emplace(GetParam());
  std::atomic<bool> written{false};
  std::jthread others([&] {
    do {
      for (const auto& piece : pieces) EXPECT_TRUE(cache.get(piece->address(), kBytes, kWrite));
    } while (!written);
  });
  EXPECT_EQ(run(cache), 0);
  written = true;
  others.join();
  EXPECT_GE(cache.statistics().evictions, kPieces - kBudget);
  EXPECT_EQ(cache.statistics().in_use, 0U);
}

INSTANTIATE_TEST_SUITE_P(Of, RegistrationStress, testing::Bool(), [](const auto& kind) {
  return kind.param ? "SharedMemory" : "PrivateMemory";
});

}  // namespace
}  // namespace hbmwire::test
