// SPDX-License-Identifier: MIT
#include "transport/shared/neighbour.hpp"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/incarnation.hpp"
#include "own_host_memory.hpp"
#include "registration/shared_keys.hpp"
#include "tests/support/bytes.hpp"
#include "tests/support/lent_memory.hpp"
#include "tests/support/less_rights.hpp"
#include "tests/support/mappings.hpp"
#include "tests/support/other_process.hpp"

/// Memory of another process on the node, which this process's CPU reads and writes by its keys.
namespace hbmwire::transport {
namespace {

using namespace std::chrono_literals;
using detail::ExportedMemory;
using detail::SharedHold;
using detail::SharedHoldFile;
using detail::SharedKeyEntry;
using detail::SharedKeyFile;
using detail::SharedKeys;
using test::LentMemory;
using test::mappings_of;
using test::OtherProcess;
using test::pattern;
using test::same_bytes;
using test::Talk;

constexpr std::uint64_t kBytes = 1 << 20;
constexpr std::uint64_t kToken = 4711;
constexpr Access kBoth = Access::remote_read | Access::remote_write;

/// Maps a whole file of the library.
template <class File>
class MappedFile {
 public:
  explicit MappedFile(const Fd& file, bool writes = true)
      : memory_(::mmap(nullptr, sizeof(File), writes ? PROT_READ | PROT_WRITE : PROT_READ,
                       MAP_SHARED, file.get(), 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
  }

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  ~MappedFile() { ::munmap(memory_, sizeof(File)); }

  [[nodiscard]] File* operator->() const { return static_cast<File*>(memory_); }

 private:
  void* memory_;
};

/// Memory of this process with a key, and the objects with which children by fork(2) become its
/// neighbours.
class Exporter {
 public:
  explicit Exporter(bool shared) : host(test::host_memory(shared)) {
    auto made = SharedKeys::create();
    if (!made) throw std::runtime_error(describe(made.error()));
    keys = std::move(*made);
    memory = *host->allocate(kBytes);
  }

  /// Adds a key to exported(). Returns its number.
  std::uint32_t add(std::uint64_t token = kToken, Access access = kBoth) const {
    const std::uint32_t number = keys->add(token, exported(access));
    EXPECT_NE(number, 0U);
    return number;
  }

  /// All of the memory except the first and last page.
  [[nodiscard]] ExportedMemory exported(Access access = kBoth) const {
    return {
        .allocation = *memory, .address = address(), .length_bytes = length(), .access = access};
  }

  /// Where exported() begins, and how long it is.
  [[nodiscard]] std::uint64_t address() const { return memory->address() + 4096; }

  static constexpr std::uint64_t length() { return kBytes - 2 * 4096; }

  [[nodiscard]] std::span<std::byte> all() const {
    return {std::bit_cast<std::byte*>(memory->address()), kBytes};
  }

  void fill(unsigned seed) const { std::ranges::copy(pattern(kBytes, seed), all().begin()); }

  std::shared_ptr<MemoryDomain> host;
  std::unique_ptr<SharedKeys> keys;
  std::optional<Allocation> memory;
};

/// In a child: its neighbour is the process that made `keys`.
std::unique_ptr<Neighbour> neighbour_of(const SharedKeys& keys) {
  auto opened = Neighbour::open(keys.name(), "exporter", test::host_memory(false));
  if (opened) return std::move(*opened);
  ADD_FAILURE() << describe(opened.error());
  ::_exit(1);
}

void expect_error(const Result<void>& result, Errc code, Hint hint = Hint::none) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << describe(result.error());
  if (hint == Hint::none) return;
  EXPECT_EQ(result.error().hint, hint) << describe(result.error());
}

template <class T>
void expect_error(const Result<T>& result, Errc code, Hint hint = Hint::none) {
  expect_error(result ? Result<void>() : Result<void>(tl::make_unexpected(result.error())), code,
               hint);
}

/// The parameter: whether the memory is shared, and mapped by both, or private, and copied by the
/// kernel.
class Neighbours : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] bool shared() const { return GetParam(); }

  Exporter exporter{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Memory, Neighbours, ::testing::Bool(),
                         [](const auto& shared) { return shared.param ? "shared" : "private"; });

/// A get and then a put of the same bytes.
struct Step {
  std::uint64_t offset;
  std::uint64_t length;
  bool guarded;  // the local memory is the application's
  unsigned seed;
};

std::vector<Step> steps() {
  std::vector<Step> all;
  for (const std::uint64_t length :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{8}, std::uint64_t{9},
        std::uint64_t{16}, std::uint64_t{4095}, std::uint64_t{4097}, std::uint64_t{100'001},
        Neighbour::kMostBytes}) {
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{5000}, Exporter::length() - length}) {
      for (const bool guarded : {false, true})
        all.push_back({offset, length, guarded, static_cast<unsigned>(all.size() + 2)});
    }
  }
  return all;
}

TEST_P(Neighbours, CopyBothWays) {
  exporter.add();
  exporter.fill(1);
  std::vector<std::byte> there = pattern(kBytes, 1);
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    EXPECT_FALSE(neighbour->no_private());
    const auto key = neighbour->find(kToken);
    ASSERT_TRUE(key) << describe(key.error());
    EXPECT_EQ(*neighbour->find(kToken), *key) << "a known key is found again";
    const LentMemory lent(Neighbour::kMostBytes + 4096);
    std::vector<std::byte> own(lent.size_bytes());
    for (const Step& step : steps()) {
      std::byte* const local = step.guarded ? lent.data() : own.data();
      std::memset(local, 0x55, own.size());
      Neighbour::Copy copy{.local = local,
                           .remote = exporter.address() + step.offset,
                           .length_bytes = step.length,
                           .gets = true,
                           .guarded = step.guarded};
      auto result = neighbour->copy(*key, kToken, copy);
      ASSERT_TRUE(result) << describe(result.error());
      EXPECT_TRUE(same_bytes({local, step.length},
                             std::span(there).subspan(4096 + step.offset, step.length)));
      EXPECT_EQ(local[step.length], std::byte{0x55});
      const auto next = pattern(step.length, step.seed);
      std::ranges::copy(next, local);
      copy.gets = false;
      result = neighbour->copy(*key, kToken, copy);
      ASSERT_TRUE(result) << describe(result.error());
      test::overlay(there, 4096 + step.offset, 0, step.seed, step.length);
    }
  });
  child.expect_good();
  for (const Step& step : steps())
    test::overlay(there, 4096 + step.offset, 0, step.seed, step.length);
  EXPECT_TRUE(same_bytes(exporter.all(), there));
}

TEST_P(Neighbours, FindEachKeyByItsToken) {
  std::vector<std::uint64_t> tokens;
  for (std::uint64_t i = 0; i < 40; ++i) {
    // The tokens with an even `i` compete for one place of the table.
    tokens.push_back(i % 2 == 0 ? 100 + i * detail::kSharedKeys : ~std::uint64_t{0} / (i + 1));
    exporter.add(tokens.back());
  }
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    std::vector<std::uint32_t> numbers;
    for (const std::uint64_t token : tokens) {
      const auto key = neighbour->find(token);
      ASSERT_TRUE(key) << describe(key.error());
      numbers.push_back(*key);
      expect_error(neighbour->find(token + 1), Errc::permission_denied, Hint::memory_key_expired);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(*neighbour->find(tokens[i]), numbers[i]);
  });
  child.expect_good();
}

TEST_P(Neighbours, FindKeysByTheirPlace) {
  const std::uint32_t number = exporter.add();
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    std::uint64_t token = 0;
    const auto key = neighbour->find_at(number, token);
    ASSERT_TRUE(key) << describe(key.error());
    EXPECT_EQ(token, kToken);
    EXPECT_EQ(*neighbour->find(kToken), *key);
    for (const std::uint32_t none : {0U, detail::kSharedKeys + 1, ~0U})
      expect_error(neighbour->find_at(none, token), Errc::invalid_argument);
    expect_error(neighbour->find_at(number % detail::kSharedKeys + 1, token),
                 Errc::permission_denied);
  });
  child.expect_good();
}

TEST_P(Neighbours, LeaveBytesOutsideTheKey) {
  exporter.add(1, Access::remote_read);
  exporter.add(2, Access::remote_write);
  exporter.fill(1);
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    const std::uint32_t reads = *neighbour->find(1);
    const std::uint32_t writes = *neighbour->find(2);
    std::vector<std::byte> own(Neighbour::kMostBytes, std::byte{0x55});
    const std::uint64_t first = exporter.address();
    const std::uint64_t length = Exporter::length();
    const auto copy = [&](std::uint32_t key, std::uint64_t token, bool gets, std::uint64_t remote,
                          std::uint64_t bytes) {
      return neighbour->copy(
          key, token, {.local = own.data(), .remote = remote, .length_bytes = bytes, .gets = gets});
    };
    expect_error(copy(reads, 1, false, first, 8), Errc::permission_denied, Hint::memory_key_access);
    expect_error(copy(writes, 2, true, first, 8), Errc::permission_denied, Hint::memory_key_access);
    for (const bool gets : {true, false}) {
      const auto tried = [&](std::uint64_t remote, std::uint64_t bytes) {
        return gets ? copy(reads, 1, true, remote, bytes) : copy(writes, 2, false, remote, bytes);
      };
      expect_error(tried(first - 1, 1), Errc::invalid_argument);
      expect_error(tried(first - 1, 100), Errc::invalid_argument);
      expect_error(tried(first + length, 1), Errc::invalid_argument);
      expect_error(tried(first + length - 7, 8), Errc::invalid_argument);
      expect_error(tried(first + length + 1, 0), Errc::invalid_argument);
      expect_error(tried(0, 8), Errc::invalid_argument);
      expect_error(tried(~std::uint64_t{0}, 8), Errc::invalid_argument);
      expect_error(tried(first + 8, ~std::uint64_t{0} - first), Errc::invalid_argument);
      EXPECT_TRUE(tried(first + length, 0));
    }
    EXPECT_TRUE(std::ranges::all_of(own, [](std::byte byte) { return byte == std::byte{0x55}; }));
    // The token of another key.
    expect_error(copy(reads, 2, true, first, 8), Errc::permission_denied);
  });
  child.expect_good();
  EXPECT_TRUE(same_bytes(exporter.all(), pattern(kBytes, 1)));
}

TEST_P(Neighbours, ChangeNothingOnceTheKeyHasEnded) {
  const std::uint32_t number = exporter.add();
  exporter.fill(1);
  OtherProcess child([&](const Talk& parent) {
    const auto neighbour = neighbour_of(*exporter.keys);
    const std::uint32_t key = *neighbour->find(kToken);
    EXPECT_EQ(mappings_of(kBytes), shared() ? 2U : 0U);  // the parent's mapping remains
    std::vector<std::byte> own(4096);
    const auto copy = [&](bool gets) {
      return neighbour->copy(key, kToken,
                             {.local = own.data(),
                              .remote = exporter.address(),
                              .length_bytes = own.size(),
                              .gets = gets});
    };
    EXPECT_TRUE(copy(true));
    parent.tell(1);
    static_cast<void>(parent.hear());
    for (const bool gets : {true, false})
      expect_error(copy(gets), Errc::permission_denied, Hint::memory_key_expired);
    expect_error(neighbour->find(kToken), Errc::permission_denied, Hint::memory_key_expired);
    std::uint64_t token = 0;
    expect_error(neighbour->find_at(number, token), Errc::permission_denied);
    neighbour->look();
    EXPECT_EQ(mappings_of(kBytes), shared() ? 1U : 0U);
    expect_error(copy(false), Errc::permission_denied);
    // Nor does the next key that gets its place.
    parent.tell(2);
    static_cast<void>(parent.hear());
    expect_error(copy(false), Errc::permission_denied);
    const auto next = neighbour->find(kToken + detail::kSharedKeys);
    ASSERT_TRUE(next) << describe(next.error());
    expect_error(copy(false), Errc::permission_denied);
    EXPECT_EQ(*next, key) << "its own number is used again";
    EXPECT_TRUE(neighbour->copy(*next, kToken + detail::kSharedKeys,
                                {.local = own.data(),
                                 .remote = exporter.address(),
                                 .length_bytes = own.size(),
                                 .gets = true}));
  });
  EXPECT_EQ(child.talk().hear(), 1U);
  EXPECT_TRUE(exporter.keys->remove(number, kToken, std::nullopt, 1s));
  child.talk().tell(1);
  EXPECT_EQ(child.talk().hear(), 2U);
  EXPECT_EQ(exporter.add(kToken + detail::kSharedKeys), number);
  child.talk().tell(2);
  child.expect_good();
  EXPECT_TRUE(same_bytes(exporter.all(), pattern(kBytes, 1)));
}

/// The other process copies all the time while keys come and go. After the end of a key no byte may
/// change.
TEST_P(Neighbours, ChangeNoByteAfterAnEnd) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kLives = 100;
#else
  constexpr std::uint64_t kLives = 500;
#endif
  // The last hold, which the child does not need, is used to tell the child the current key.
  std::atomic<std::uint64_t>& current = exporter.keys->holds().holds.back().ring_mark[0];
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    std::vector<std::byte> own(Neighbour::kMostBytes);
    for (;;) {
      const std::uint64_t life = current;
      const auto key = neighbour->find(life);
      if (!key) {
        std::this_thread::yield();
        continue;
      }
      for (std::uint64_t i = 0; i < own.size(); i += 512) {
        const std::uint64_t stamp = life << 32U | i;
        std::memcpy(&own[i], &stamp, sizeof stamp);
      }
      while (neighbour->copy(
          *key, life,
          {.local = own.data(), .remote = exporter.address(), .length_bytes = own.size()})) {
      }
      neighbour->look();
    }
  });
  const auto stamped = [&] {
    const auto* const first = std::bit_cast<const std::uint64_t*>(exporter.address());
    return __atomic_load_n(first, __ATOMIC_RELAXED) >> 32U;
  };
  for (std::uint64_t life = 1; life <= kLives; ++life) {
    const std::uint32_t number = exporter.add(life);
    current = life;
    // In every fourth life a copy is certainly in progress.
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (life % 4 == 0 && stamped() != life) ASSERT_LT(std::chrono::steady_clock::now(), until);
    // The key ends at another moment of a copy in each life.
    std::this_thread::sleep_for(std::chrono::microseconds(life * 37 % 700));
    ASSERT_TRUE(exporter.keys->remove(number, life, std::nullopt, 20s));
    const std::vector<std::byte> now(exporter.all().begin(), exporter.all().end());
    std::this_thread::sleep_for(50us);
    ASSERT_TRUE(same_bytes(exporter.all(), now)) << "in life " << life;
  }
}

/// A peer that polls for the last word of a put finds all other bytes in place.
TEST_P(Neighbours, WriteTheLastWordLast) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kRounds = 1000;
#else
  constexpr std::uint64_t kRounds = 10'000;
#endif
  exporter.add();
  std::ranges::fill(exporter.all(), std::byte{0});
  const auto length_of = [](std::uint64_t round) { return 8 * (1 + round * 131 % 1500); };
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    const std::uint32_t key = *neighbour->find(kToken);
    std::vector<std::uint64_t> own(1500);
    std::uint64_t acknowledged = 0;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      std::ranges::fill(own, round);
      ASSERT_TRUE(neighbour->copy(key, kToken,
                                  {.local = reinterpret_cast<std::byte*>(own.data()),
                                   .remote = exporter.address(),
                                   .length_bytes = length_of(round)}));
      for (int looks = 0; acknowledged < round; ++looks) {
        if (looks % 100 == 99) std::this_thread::yield();
        ASSERT_TRUE(neighbour->copy(key, kToken,
                                    {.local = reinterpret_cast<std::byte*>(&acknowledged),
                                     .remote = exporter.address() + kBytes / 2,
                                     .length_bytes = 8,
                                     .gets = true}));
      }
    }
  });
  const auto* const words = std::bit_cast<const std::uint64_t*>(exporter.address());
  auto* const acknowledged = std::bit_cast<std::uint64_t*>(exporter.address() + kBytes / 2);
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    const std::uint64_t count = length_of(round) / 8;
    const auto load = [&](std::uint64_t place) {
      return __atomic_load_n(&words[place], __ATOMIC_ACQUIRE);
    };
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (int looks = 1; load(count - 1) != round; ++looks) {
      if (looks % 1000 != 0) continue;
      std::this_thread::yield();
      ASSERT_LT(std::chrono::steady_clock::now(), until);
    }
    // Looks at every second run of eight words, so as not to be much slower than the writer.
    for (std::uint64_t i = 0; i < count; i += i % 8 == 7 ? 9U : 1U)
      ASSERT_EQ(load(i), round) << i << " of " << count;
    ASSERT_EQ(load(0), round);
    __atomic_store_n(acknowledged, round, __ATOMIC_RELEASE);
  }
  child.expect_good();
}

TEST_P(Neighbours, SeeThatTheirOwnMemoryIsGone) {
  exporter.add();
  exporter.fill(1);
  OtherProcess child([&](const Talk&) {
    const auto neighbour = neighbour_of(*exporter.keys);
    const std::uint32_t key = *neighbour->find(kToken);
    const LentMemory lent(4 * 4096);
    lent.take_away(LentMemory::How::unmapped, 4096);
    for (const bool gets : {true, false}) {
      expect_error(neighbour->copy(key, kToken,
                                   {.local = lent.data() + 4096,
                                    .remote = exporter.address() + 50'000,
                                    .length_bytes = 8192,
                                    .gets = gets,
                                    .guarded = true}),
                   Errc::invalid_argument, Hint::memory_gone);
    }
    EXPECT_TRUE(neighbour->copy(key, kToken,
                                {.local = lent.data(),
                                 .remote = exporter.address(),
                                 .length_bytes = 4096,
                                 .gets = true,
                                 .guarded = true}));
  });
  child.expect_good();
  EXPECT_TRUE(same_bytes(exporter.all(), pattern(kBytes, 1)));
}

/// After a process was killed its file of keys still exists, and so does memory that both had
/// mapped.
TEST_P(Neighbours, AKilledProcessIsRefusedOrWrittenInVain) {
  OtherProcess other([&](const Talk& parent) {
    Exporter theirs(shared());
    theirs.add();
    parent.tell(theirs.keys->name().descriptor);
    parent.tell(theirs.address());
    for (;;) ::pause();
  });
  const SharedFileName unknown{.process = static_cast<std::uint32_t>(other.id()),
                               .descriptor = static_cast<std::uint32_t>(other.talk().hear()),
                               .mark = {}};
  const std::uint64_t address = other.talk().hear();
  // The mark contains the process' incarnation, which a peer learns. Here it is read from the
  // file's name: "hbmwire " and 32 hexadecimal digits.
  const std::string link =
      "/proc/" + std::to_string(unknown.process) + "/fd/" + std::to_string(unknown.descriptor);
  std::array<char, 200> target{};
  ASSERT_GT(::readlink(link.c_str(), target.data(), target.size() - 1), 0);
  const std::string_view text = target.data();
  const std::string hex(text.substr(text.find("hbmwire ") + 8, 32));
  const auto number = [&](std::size_t at) { return std::stoull(hex.substr(at, 16), nullptr, 16); };
  const SharedFileName name{unknown.process, unknown.descriptor, {number(0), number(16)}};
  EXPECT_EQ(name.mark[1], detail::kSharedKeysMagic);
  auto opened = Neighbour::open(name, "killed", test::host_memory(false));
  ASSERT_TRUE(opened) << describe(opened.error());
  const std::uint32_t key = *(*opened)->find(kToken);
  std::vector<std::byte> own(4096);
  const auto copy = [&](bool gets) {
    return (*opened)->copy(
        key, kToken,
        {.local = own.data(), .remote = address, .length_bytes = own.size(), .gets = gets});
  };
  EXPECT_TRUE(copy(true));
  for (const bool is_zombie : {true, false}) {
    if (is_zombie) {
      other.make_zombie();
    } else {
      other.kill();
    }
    for (const bool gets : {true, false}) {
      if (shared()) {
        EXPECT_TRUE(copy(gets));
      } else {
        expect_error(copy(gets), Errc::peer_failed, Hint::peer_gone);
      }
    }
  }
  expect_error(Neighbour::open(name, "killed", test::host_memory(false)), Errc::not_found);
}

// --- holds

[[nodiscard]] std::uint64_t holds_of(const SharedKeys& keys, std::uint64_t process) {
  std::uint64_t count = 0;
  for (const SharedHold& hold : keys.holds().holds)
    count += hold.process() == process && hold.owner != 0 ? 1U : 0U;
  return count;
}

TEST(NeighbourHolds, BelongToTheirOwnerUntilItEnds) {
  const Exporter exporter(false);
  OtherProcess child([&](const Talk& parent) {
    auto one = neighbour_of(*exporter.keys);
    auto other = neighbour_of(*exporter.keys);
    parent.tell(1);
    static_cast<void>(parent.hear());
    one.reset();
    parent.tell(2);
    static_cast<void>(parent.hear());
    other.reset();
  });
  const auto id = static_cast<std::uint64_t>(child.id());
  EXPECT_EQ(child.talk().hear(), 1U);
  EXPECT_EQ(holds_of(*exporter.keys, id), 2U);
  EXPECT_EQ(exporter.keys->holds().used, 2U);
  child.talk().tell(1);
  EXPECT_EQ(child.talk().hear(), 2U);
  EXPECT_EQ(holds_of(*exporter.keys, id), 1U);
  child.talk().tell(2);
  child.expect_good();
  EXPECT_EQ(holds_of(*exporter.keys, id), 0U);
}

TEST(NeighbourHolds, AreTakenOverFromProcessesThatHaveEnded) {
  const Exporter exporter(false);
  OtherProcess ended([](const Talk&) {});
  const auto id = static_cast<std::uint32_t>(ended.id());
  ended.expect_good();
  // 3 stands for any incarnation.
  for (SharedHold& hold : exporter.keys->holds().holds) hold.owner = SharedHold::owner_of(id, 3);
  exporter.keys->holds().used = detail::kSharedHolds;
  OtherProcess child([&](const Talk&) {
    std::vector<std::unique_ptr<Neighbour>> all;
    for (int i = 0; i < 3; ++i) all.push_back(neighbour_of(*exporter.keys));
    EXPECT_EQ(holds_of(*exporter.keys, static_cast<std::uint64_t>(::getpid())), 3U);
  });
  child.expect_good();
}

TEST(NeighbourHolds, AreLimitedToFourThousand) {
  const Exporter exporter(false);
  for (SharedHold& hold : exporter.keys->holds().holds)
    hold.owner = SharedHold::owner_of(static_cast<std::uint32_t>(::getpid()), 3);
  OtherProcess child([&](const Talk& parent) {
    const auto refused = Neighbour::open(exporter.keys->name(), "full", test::host_memory(false));
    expect_error(refused, Errc::exhausted);
    parent.tell(1);
    static_cast<void>(parent.hear());
    static_cast<void>(neighbour_of(*exporter.keys));
  });
  EXPECT_EQ(child.talk().hear(), 1U);
  exporter.keys->holds().holds[4095].owner = 0;
  child.talk().tell(1);
  child.expect_good();
}

TEST(NeighbourHolds, TellOfARing) {
  const Exporter exporter(false);
  OtherProcess child([&](const Talk& parent) {
    const auto neighbour = neighbour_of(*exporter.keys);
    neighbour->tell_of_ring(9, {.process = 1, .descriptor = 2, .mark = {3, 4}});
    neighbour->ring_bell();
    parent.tell(incarnation());
    static_cast<void>(parent.hear());
  });
  const std::uint64_t owner =
      SharedHold::owner_of(static_cast<std::uint32_t>(child.id()), child.talk().hear());
  const SharedHold* const hold = exporter.keys->take_hold(owner, 9);
  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(hold->ring_descriptor, 2U);
  EXPECT_EQ(hold->ring_mark[0], 3U);
  EXPECT_EQ(hold->ring_mark[1], 4U);
  EXPECT_EQ(hold->reaches_private, 1U);
  const auto place = static_cast<std::size_t>(hold - exporter.keys->holds().holds.data());
  EXPECT_EQ(exporter.keys->holds().bells[place / 64], std::uint64_t{1} << place % 64);
  child.talk().tell(1);
  child.expect_good();
  EXPECT_EQ(exporter.keys->take_hold(owner, 9), nullptr);
}

/// A child by fork(2) destroys its copy of its parent's objects.
TEST(NeighbourHolds, AChildDoesNotReleaseHoldsOfItsParent) {
  const Exporter exporter(true);
  exporter.add();
  OtherProcess asker([&](const Talk& parent) {
    auto neighbour = neighbour_of(*exporter.keys);
    const std::uint32_t key = *neighbour->find(kToken);
    OtherProcess child([&](const Talk&) { neighbour.reset(); });
    child.expect_good();
    parent.tell(1);
    static_cast<void>(parent.hear());
    std::uint64_t word = 0;
    EXPECT_TRUE(neighbour->copy(key, kToken,
                                {.local = reinterpret_cast<std::byte*>(&word),
                                 .remote = exporter.address(),
                                 .length_bytes = sizeof word}));
  });
  EXPECT_EQ(asker.talk().hear(), 1U);
  EXPECT_EQ(holds_of(*exporter.keys, static_cast<std::uint64_t>(asker.id())), 1U);
  asker.talk().tell(1);
  asker.expect_good();
}

// --- strangers

TEST(NeighbourOfAStranger, AnotherFileIsRefused) {
  const Exporter exporter(false);
  const SharedFileName name = exporter.keys->name();
  OtherProcess child([&](const Talk&) {
    const auto expect_refused = [](const SharedFileName& wrong, Errc code) {
      expect_error(Neighbour::open(wrong, "wrong", test::host_memory(false)), code);
    };
    SharedFileName wrong = name;
    wrong.mark[0] ^= 1U;  // of another incarnation of the process
    expect_refused(wrong, Errc::permission_denied);
    wrong = name;
    wrong.descriptor = 100'000;
    expect_refused(wrong, Errc::not_found);
    wrong.process = 0;
    expect_refused(wrong, Errc::not_found);
    wrong = name;
    wrong.process = static_cast<std::uint32_t>(::getpid());
    // With the id of this process the name is good: fork(2) left the descriptor of the file here.
    EXPECT_TRUE(Neighbour::open(wrong, "own", test::host_memory(false)));
    // Descriptors 0 and 1 are no files of keys.
    expect_refused(exporter.keys->holds().used == 0 ? SharedFileName{name.process, 0, name.mark}
                                                    : SharedFileName{name.process, 1, name.mark},
                   Errc::permission_denied);
  });
  child.expect_good();
}

/// A file of keys from a stranger: it can be mapped, and contains arbitrary values.
class ForgedKeys {
 public:
  ForgedKeys() {
    file_ = *SharedFile::create(sizeof(SharedKeyFile),
                                {.flags = 0, .mark = {incarnation(), detail::kSharedKeysMagic}});
    holds_ = *SharedFile::create(sizeof(SharedHoldFile));
    keys.emplace(file_.fd);
    holds.emplace(holds_.fd);
    (*keys)->magic = detail::kSharedKeysMagic;
    (*keys)->address = std::bit_cast<std::uint64_t>(&incarnation_);
    (*keys)->holds = holds_.name;
  }

  [[nodiscard]] const SharedFileName& name() const { return file_.name; }

  /// The entry where a key with this token is looked for. The token must be small.
  SharedKeyEntry& entry(std::uint64_t token) const { return (*keys)->keys[token]; }

  /// Adds a key that would be valid.
  SharedKeyEntry& add(std::uint64_t token, std::uint64_t address, std::uint64_t length) const {
    SharedKeyEntry& added = entry(token);
    added.token = token;
    added.address = address;
    added.length_bytes = length;
    added.access = static_cast<std::uint32_t>(kBoth);
    added.state = 1;
    return added;
  }

  std::optional<MappedFile<SharedKeyFile>> keys;
  std::optional<MappedFile<SharedHoldFile>> holds;

 private:
  std::uint64_t incarnation_ = incarnation();
  SharedFile file_;
  SharedFile holds_;
};

TEST(NeighbourOfAStranger, AnotherBuildIsNotSupported) {
  ForgedKeys forged;
  for (const std::uint64_t magic :
       {std::uint64_t{0}, detail::kSharedKeysMagic + 1, ~detail::kSharedKeysMagic}) {
    (*forged.keys)->magic = magic;
    OtherProcess child([&](const Talk&) {
      expect_error(Neighbour::open(forged.name(), "other", test::host_memory(false)),
                   Errc::not_supported, Hint::other_version);
    });
    child.expect_good();
  }
}

TEST(NeighbourOfAStranger, HoldsInAnotherFileAreRefused) {
  ForgedKeys forged;
  const SharedFileName good = (*forged.keys)->holds;
  const auto small = SharedFile::create(4096);
  for (int i = 0; i < 4; ++i) {
    SharedFileName wrong = good;
    if (i == 0) wrong.mark[1] ^= 1U;
    if (i == 1) wrong.process = 0;
    if (i == 2) wrong.descriptor = 0;
    if (i == 3) wrong = small->name;
    (*forged.keys)->holds = wrong;
    OtherProcess child([&](const Talk&) {
      EXPECT_FALSE(Neighbour::open(forged.name(), "other", test::host_memory(false)));
    });
    child.expect_good();
  }
}

TEST(NeighbourOfAStranger, ImpossibleKeysAreErrors) {
  ForgedKeys forged;
  const auto own = *test::host_memory(false)->allocate(4096);
  const std::uint64_t address = own.address();
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  const auto handle_of = [](const Allocation& memory, std::uint64_t length) {
    return memory.domain().ipc_handle(memory.address(), length).value();
  };
  const auto shared = *test::host_memory(true)->allocate(8192);
  // One key for each token.
  forged.add(1, 8, 100);         // memory that does not exist
  forged.add(2, kMax - 4, 100);  // an address range that wraps around
  forged.add(3, 0, kMax);        // the whole address space
  forged.add(4, address, 0);
  forged.add(5, address, 4096).access = ~0U;
  forged.add(6, address, 4096).is_shared = 1;  // with a handle of zeros
  // A handle of less memory than the key names.
  SharedKeyEntry& longer = forged.add(7, shared.address(), 8192);
  longer.is_shared = 1;
  longer.set_handle(handle_of(shared, 4096));
  // A handle whose range is not within the memory.
  SharedKeyEntry& beyond = forged.add(8, shared.address(), kMax / 2);
  beyond.is_shared = 1;
  IpcHandle handle = handle_of(shared, 8192);
  handle.offset_bytes = kMax / 2 + 2;
  handle.length_bytes = kMax / 2;
  beyond.set_handle(handle);
  // A handle of another type of memory.
  SharedKeyEntry& of_device = forged.add(9, shared.address(), 8192);
  of_device.is_shared = 1;
  handle = handle_of(shared, 8192);
  handle.type = MemoryType::cuda;
  of_device.set_handle(handle);
  forged.add(10, address, 4096).state = 2;
  forged.add(11, address, 4096).is_shared = 77;
  SharedKeyEntry& elsewhere = forged.add(12, 4096, 8192);  // the entry claims another address
  elsewhere.is_shared = 1;
  elsewhere.set_handle(handle_of(shared, 8192));
  OtherProcess child([&](const Talk&) {
    auto opened = Neighbour::open(forged.name(), "forged", test::host_memory(false));
    ASSERT_TRUE(opened) << describe(opened.error());
    std::vector<std::byte> bytes(Neighbour::kMostBytes);
    const auto tried = [&](std::uint64_t token, std::uint64_t remote, std::uint64_t length) {
      for (const bool gets : {true, false}) {
        const auto key = (*opened)->find(token);
        if (!key) return;
        const auto copied = (*opened)->copy(
            *key, token,
            {.local = bytes.data(), .remote = remote, .length_bytes = length, .gets = gets});
        // The keys of these tokens may give access to all of the memory.
        const bool fits = length == 0 || token == 3 || token == 5 || token == 12;
        EXPECT_TRUE(fits || !copied) << token << ": " << remote << ", " << length;
      }
    };
    for (std::uint64_t token = 1; token <= 12; ++token) {
      for (const std::uint64_t remote : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{4096},
                                         address, shared.address(), kMax - 4, kMax}) {
        for (const std::uint64_t length :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{4096}})
          tried(token, remote, length);
      }
    }
    for (const std::uint64_t none : {6U, 7U, 8U, 9U, 10U, 11U}) EXPECT_FALSE((*opened)->find(none));
  });
  child.expect_good();
}

/// A key that changes while it is read is seen as one of its states, or as invalid.
TEST(NeighbourOfAStranger, KeysMayChangeWhileTheyAreRead) {
  ForgedKeys forged;
  const auto shared = *test::host_memory(true)->allocate(8192);
  const auto handle = shared.domain().ipc_handle(shared.address(), 8192).value();
  OtherProcess child([&](const Talk& parent) {
    auto opened = Neighbour::open(forged.name(), "forged", test::host_memory(false));
    ASSERT_TRUE(opened) << describe(opened.error());
    std::vector<std::byte> bytes(64);
    std::uint64_t found = 0;
    const auto until = std::chrono::steady_clock::now() + 700ms;
    while (std::chrono::steady_clock::now() < until) {
      const auto key = (*opened)->find(1);
      if (!key) continue;
      ++found;
      static_cast<void>((*opened)->copy(*key, 1,
                                        {.local = bytes.data(),
                                         .remote = shared.address() + 8128,
                                         .length_bytes = 64,
                                         .gets = true}));
      (*opened)->look();
    }
    parent.tell(found);
  });
  std::uint64_t state = 0;
  for (std::uint64_t i = 0; !child.talk().can_hear() && i < 2'000'000; ++i) {
    SharedKeyEntry& entry = forged.entry(1);
    entry.state = ++state;
    entry.address = i % 3 == 0 ? 8 : shared.address();
    entry.length_bytes = i % 5 == 0 ? ~std::uint64_t{0} : 8192;
    entry.is_shared = i % 2;
    entry.token = i % 7 == 0 ? 2 : 1;
    entry.access = ~0U;
    entry.set_handle(handle);
    entry.state = ++state - (i % 11 == 0 ? 1 : 0);
    forged.holds.value()->used = static_cast<std::uint32_t>(i);
    forged.holds.value()->holds[i % 3].owner = i;
    if (i % 64 == 0) std::this_thread::yield();
  }
  EXPECT_NE(child.talk().hear(), ~std::uint64_t{0});
  child.expect_good();
}

// --- restrictions of the kernel

TEST_P(Neighbours, WithoutCopiesByTheKernelHaveSharedMemoryAlone) {
  exporter.add();
  exporter.fill(1);
  OtherProcess child([&](const Talk&) {
    test::forbid_copies();
    const auto neighbour = neighbour_of(*exporter.keys);
    ASSERT_TRUE(neighbour->no_private());
    neighbour->tell_of_ring(9, {});
    const auto key = neighbour->find(kToken);
    if (!shared()) {
      ASSERT_FALSE(key);
      EXPECT_EQ(describe(key.error()), describe(*neighbour->no_private()));
      return;
    }
    ASSERT_TRUE(key) << describe(key.error());
    std::vector<std::byte> bytes(4096);
    // `guarded`: the application may have unmapped its own memory meanwhile.
    for (const bool guarded : {false, true}) {
      EXPECT_TRUE(neighbour->copy(*key, kToken,
                                  {.local = bytes.data(),
                                   .remote = exporter.address(),
                                   .length_bytes = bytes.size(),
                                   .gets = true,
                                   .guarded = guarded}));
      EXPECT_TRUE(same_bytes(bytes, exporter.all().subspan(4096, 4096)));
    }
  });
  child.expect_good();
}

TEST_P(Neighbours, AHiddenProcessIsRefused) {
  OtherProcess both([&](const Talk&) {
    test::drop_right_to_trace();
    const Exporter theirs(shared());
    theirs.add();
    ::prctl(PR_SET_DUMPABLE, 0);
    OtherProcess child([&](const Talk&) {
      expect_error(Neighbour::open(theirs.keys->name(), "closed", test::host_memory(false)),
                   Errc::permission_denied);
    });
    child.expect_good();
    ::prctl(PR_SET_DUMPABLE, 1);
    OtherProcess again([&](const Talk&) {
      const auto neighbour = neighbour_of(*theirs.keys);
      EXPECT_FALSE(neighbour->no_private());
      EXPECT_TRUE(neighbour->find(kToken));
    });
    again.expect_good();
  });
  both.expect_good();
}

/// Forks a child with this process id, if it is free and the kernel allows choosing it.
pid_t fork_as(pid_t number) {
  std::array<pid_t, 1> chosen{number};
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = std::bit_cast<std::uint64_t>(chosen.data());
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

/// The calls that copy private memory identify a process only by its id.
TEST(NeighbourThatHasEnded, AProcessThatReusesItsNumberIsLeftAlone) {
  // The child's successor also has memory at the address of the child's private memory.
  const Exporter exporter(false);
  OtherProcess other([&](const Talk& parent) {
    auto made = SharedKeys::create();
    ASSERT_TRUE(made);
    EXPECT_NE((*made)->add(kToken, exporter.exported()), 0U);
    parent.tell((*made)->name().descriptor);
    parent.tell(incarnation());
    for (;;) ::pause();
  });
  const auto id = other.id();
  SharedFileName name{.process = static_cast<std::uint32_t>(id), .descriptor = 0, .mark = {}};
  name.descriptor = static_cast<std::uint32_t>(other.talk().hear());
  name.mark = detail::shared_keys_mark(other.talk().hear());
  auto opened = Neighbour::open(name, "ended", test::host_memory(false));
  ASSERT_TRUE(opened) << describe(opened.error());
  const std::uint32_t key = *(*opened)->find(kToken);
  other.kill();
  std::ranges::fill(exporter.all(), std::byte{0});
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t next = fork_as(id);
  if (next == 0) {
    // Exits with 0 if all bytes are still zero after the parent has tried to write.
    char byte = 0;
    ::alarm(60);
    ::close(pipe[1]);
    static_cast<void>(::read(pipe[0], &byte, 1));
    const bool same =
        std::ranges::all_of(exporter.all(), [](std::byte b) { return b == std::byte{0}; });
    ::_exit(same ? 0 : 1);
  }
  if (next < 0) GTEST_SKIP() << "takes the right to choose a process' number (clone3(2))";
  ASSERT_EQ(next, id);
  std::vector<std::byte> bytes(4096, std::byte{0xee});
  for (const bool gets : {false, true}) {
    expect_error((*opened)->copy(key, kToken,
                                 {.local = bytes.data(),
                                  .remote = exporter.address(),
                                  .length_bytes = bytes.size(),
                                  .gets = gets}),
                 Errc::peer_failed, Hint::peer_gone);
  }
  ::close(pipe[1]);
  int status = -1;
  ::waitpid(next, &status, 0);
  EXPECT_EQ(status, 0) << "another process' memory was written";
  ::close(pipe[0]);
}

}  // namespace
}  // namespace hbmwire::transport
