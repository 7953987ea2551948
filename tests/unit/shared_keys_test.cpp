// SPDX-License-Identifier: MIT
#include "registration/shared_keys.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "base/incarnation.hpp"
#include "own_host_memory.hpp"
#include "registration/exports.hpp"
#include "tests/support/mappings.hpp"
#include "tests/support/other_process.hpp"

/// A process publishes its keys to others. A key may end while another process uses it. Most keys
/// here have the token 5. Tokens that differ by kSharedKeys share a place in the table. A test that
/// counts mappings gives its memory a length that no other memory has.
namespace hbmwire::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::mappings_of;
using test::OtherProcess;
using test::Talk;

constexpr std::uint64_t kBytes = 64 << 10;
constexpr auto kPatience = 300ms;
// Extra time for a busy machine.
constexpr auto kSlack = 2s;

/// The work of a child that does nothing until it is killed.
void sleeps(const Talk& /*talk*/) {
  for (;;) ::pause();
}

class SharedKeysOfThis : public ::testing::Test {
 protected:
  SharedKeysOfThis() {
    auto made = SharedKeys::create();
    if (!made) throw std::runtime_error(describe(made.error()));
    keys = std::move(*made);
  }

  [[nodiscard]] ExportedMemory memory_of(std::uint64_t bytes = kBytes) const {
    auto allocated = host->allocate(bytes);
    EXPECT_TRUE(allocated);
    return {.allocation = *allocated,
            .address = allocated->address(),
            .length_bytes = bytes,
            .access = Access::remote_read | Access::remote_write};
  }

  /// Records, like Neighbour, that a process is using a key.
  void hold(std::uint32_t number, std::uint64_t owner, std::uint32_t place = 0) const {
    SharedHold& hold = keys->holds().holds[place];
    hold.owner = owner;
    hold.key = number;
    keys->holds().used = std::max(keys->holds().used.load(), place + 1);
  }

  /// Records that the process `by` is using a key. 5 stands for any incarnation.
  void hold(std::uint32_t number, const OtherProcess& by, std::uint32_t place = 0) const {
    hold(number, SharedHold::owner_of(static_cast<std::uint32_t>(by.id()), 5), place);
  }

  void let_go(std::uint32_t place = 0) const { keys->holds().holds[place].key = 0; }

  struct Removed {
    Result<void> result;
    Clock::duration took;
  };

  [[nodiscard]] Removed remove(std::uint32_t number, std::optional<ExportedMemory> memory,
                               std::chrono::nanoseconds patience = kPatience,
                               std::uint64_t token = 5) const {
    const auto begun = Clock::now();
    auto result = keys->remove(number, token, std::move(memory), patience);
    return {std::move(result), Clock::now() - begun};
  }

  static void expect_at_once(const Removed& removed) {
    EXPECT_TRUE(removed.result) << describe(removed.result.error());
    EXPECT_LT(removed.took, kPatience);
  }

  static void expect_timed_out(const Removed& removed) {
    ASSERT_FALSE(removed.result);
    EXPECT_EQ(removed.result.error().code, Errc::timed_out) << describe(removed.result.error());
    EXPECT_EQ(removed.result.error().hint, Hint::peer_unsettled);
    EXPECT_GE(removed.took, kPatience);
    EXPECT_LT(removed.took, kPatience + kSlack);
  }

  /// Looks the key up like another process.
  [[nodiscard]] bool is_there(std::uint64_t token) const {
    const auto file = SharedFile::open(keys->name(), sizeof(SharedKeyFile), false);
    EXPECT_TRUE(file) << describe(file.error());
    void* const mapped =
        ::mmap(nullptr, sizeof(SharedKeyFile), PROT_READ, MAP_SHARED, file->get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    const auto& all = *static_cast<const SharedKeyFile*>(mapped);
    bool found = false;
    for (const SharedKeyEntry& entry : all.keys)
      found = found || (entry.state % 2 == 1 && entry.token == token);
    ::munmap(mapped, sizeof(SharedKeyFile));
    return found;
  }

  std::shared_ptr<MemoryDomain> host = test::host_memory(true);
  std::unique_ptr<SharedKeys> keys;
};

TEST_F(SharedKeysOfThis, AreThereUntilTheyAreRemoved) {
  const std::uint32_t number = keys->add(5, memory_of());
  EXPECT_NE(number, 0U);
  EXPECT_TRUE(is_there(5));
  EXPECT_FALSE(is_there(6));
  expect_at_once(remove(number, std::nullopt));
  EXPECT_FALSE(is_there(5));
}

/// With tokens like those of real keys.
TEST_F(SharedKeysOfThis, FindAPlaceAsLongAsThereIsOne) {
  const ExportedMemory memory = memory_of();
  std::mt19937_64 random(5);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
  for (std::uint32_t i = 0; i < kSharedKeys; ++i) {
    const std::uint64_t token = keys->token_for(random());
    all.emplace_back(keys->add(token, memory), token);
    ASSERT_NE(all.back().first, 0U) << i;
    // Some keys are removed meanwhile.
    if (random() % 3 != 0) continue;
    std::swap(all[random() % all.size()], all.back());
    EXPECT_TRUE(keys->remove(all.back().first, all.back().second, std::nullopt, kPatience));
    all.pop_back();
  }
  while (all.size() < kSharedKeys) {
    const std::uint64_t token = keys->token_for(random());
    all.emplace_back(keys->add(token, memory), token);
    ASSERT_NE(all.back().first, 0U) << all.size();
  }
  const std::uint64_t token = keys->token_for(random());
  EXPECT_NE(token, 0U);
  EXPECT_EQ(keys->add(token, memory), 0U);
}

TEST_F(SharedKeysOfThis, AreLimitedToSixteenThousand) {
  const ExportedMemory memory = memory_of();
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t token = 1; token <= kSharedKeys; ++token) {
    numbers.push_back(keys->add(token, memory));
    ASSERT_NE(numbers.back(), 0U) << token;
  }
  EXPECT_EQ(keys->add(kSharedKeys + 1, memory), 0U);
  EXPECT_TRUE(is_there(1));
  EXPECT_TRUE(is_there(kSharedKeys));
  EXPECT_FALSE(is_there(kSharedKeys + 1));
  // A key that ends makes room for the next one.
  expect_at_once(remove(numbers[4], std::nullopt));
  EXPECT_EQ(keys->add(kSharedKeys + 5, memory), numbers[4]);
  EXPECT_TRUE(is_there(kSharedKeys + 5));
  EXPECT_EQ(keys->add(kSharedKeys + 5 - 1, memory), 0U);
}

/// The search for a key covers kSharedKeyPlaces places.
TEST_F(SharedKeysOfThis, OnePlaceHoldsAsManyKeysAsReadersSearch) {
  const ExportedMemory memory = memory_of();
  std::vector<std::uint32_t> numbers;
  for (std::uint64_t i = 0; i < kSharedKeyPlaces; ++i) {
    numbers.push_back(keys->add(kSharedKeys - 3 + i * kSharedKeys, memory));
    EXPECT_NE(numbers.back(), 0U);
  }
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::unique(numbers).begin(), numbers.end());
  EXPECT_EQ(keys->add(kSharedKeys - 3 + kSharedKeyPlaces * kSharedKeys, memory), 0U);
}

// --- the end of a key

TEST_F(SharedKeysOfThis, EndAtOnceWithoutHolders) {
  const std::uint32_t number = keys->add(5, memory_of());
  const OtherProcess another(sleeps);
  // Holds that do not count: of another key, of no key, and of neither key nor process.
  hold(number + 1, another);
  hold(0, another, 1);
  hold(0, 0, 2);
  expect_at_once(remove(number, std::nullopt));
}

TEST_F(SharedKeysOfThis, EndWhenTheirHolderLetsGo) {
  const std::uint32_t number = keys->add(5, memory_of());
  const OtherProcess another(sleeps);
  hold(number, another, 7);
  std::atomic<bool> let{false};
  std::thread letting([&] {
    std::this_thread::sleep_for(150ms);
    let = true;
    let_go(7);
  });
  const Removed removed = remove(number, std::nullopt, 20s);
  EXPECT_TRUE(removed.result) << describe(removed.result.error());
  EXPECT_TRUE(let);
  EXPECT_LT(removed.took, 150ms + kSlack);
  letting.join();
}

/// EndpointOptions::peer_timeout may be infinite.
TEST_F(SharedKeysOfThis, MayWaitForEver) {
  const std::uint32_t number = keys->add(5, memory_of());
  const OtherProcess another(sleeps);
  hold(number, another);
  std::thread letting([&] {
    std::this_thread::sleep_for(100ms);
    let_go();
  });
  const Removed removed = remove(number, std::nullopt, std::chrono::nanoseconds::max());
  EXPECT_TRUE(removed.result) << describe(removed.result.error());
  EXPECT_GE(removed.took, 90ms);
  letting.join();
}

TEST_F(SharedKeysOfThis, DoNotWaitForAProcessThatWasKilled) {
  OtherProcess another(sleeps);
  for (const bool is_zombie : {true, false}) {
    const std::uint32_t number = keys->add(5, memory_of());
    hold(number, another);
    if (is_zombie) {
      another.make_zombie();
    } else {
      const auto id = static_cast<std::uint32_t>(another.id());
      another.kill();
      hold(number, SharedHold::owner_of(id, 5));
    }
    expect_at_once(remove(number, std::nullopt));
  }
}

TEST_F(SharedKeysOfThis, SeeTheEndOfAProcessWhileTheyWait) {
  const std::uint32_t number = keys->add(5, memory_of());
  const OtherProcess another(sleeps);
  another.stop();
  hold(number, another);
  std::thread killing([&] {
    std::this_thread::sleep_for(100ms);
    another.make_zombie();
  });
  const Removed removed = remove(number, std::nullopt, 20s);
  EXPECT_TRUE(removed.result);
  EXPECT_LT(removed.took, 100ms + kSlack);
  killing.join();
}

TEST_F(SharedKeysOfThis, WaitForAStoppedProcessNoLongerThanTheyMay) {
  constexpr std::uint64_t kItsBytes = (3 << 20) + 4096;
  const OtherProcess another(sleeps);
  auto memory = std::make_optional(memory_of(kItsBytes));
  const std::uint32_t number = keys->add(5, *memory);
  hold(number, another);
  another.stop();
  expect_timed_out(remove(number, std::exchange(memory, std::nullopt)));
  EXPECT_FALSE(is_there(5));
  EXPECT_EQ(mappings_of(kItsBytes), 1U) << "it may be written to";
  // A new key gets neither its place nor its memory.
  const std::uint32_t next = keys->add(5 + kSharedKeys, memory_of());
  EXPECT_NE(next, number);
  EXPECT_EQ(mappings_of(kItsBytes), 1U);
  another.go_on();
  EXPECT_EQ(mappings_of(kItsBytes), 1U);
  keys->look();
  EXPECT_EQ(mappings_of(kItsBytes), 1U);
  let_go();
  keys->look();
  EXPECT_EQ(mappings_of(kItsBytes), 0U) << "it is given back with the next look";
  EXPECT_TRUE(is_there(5 + kSharedKeys));
}

TEST_F(SharedKeysOfThis, KeepMemoryOfAStoppedProcessThatIsKilledNoLonger) {
  constexpr std::uint64_t kItsBytes = (3 << 20) + 8192;
  OtherProcess another(sleeps);
  another.stop();
  auto memory = std::make_optional(memory_of(kItsBytes));
  const std::uint32_t number = keys->add(5, *memory);
  hold(number, another);
  expect_timed_out(remove(number, std::exchange(memory, std::nullopt)));
  EXPECT_EQ(mappings_of(kItsBytes), 1U);
  another.kill();
  EXPECT_EQ(keys->add(5, memory_of()), number) << "its place is free again";
  keys->look();
  EXPECT_EQ(mappings_of(kItsBytes), 0U);
  EXPECT_TRUE(is_there(5)) << "the end of the first key must not end the next one";
}

TEST_F(SharedKeysOfThis, MayBeRemovedAgainWhereTheFirstTimeWasTooShort) {
  constexpr std::uint64_t kItsBytes = (3 << 20) + 12288;
  const OtherProcess another(sleeps);
  auto memory = std::make_optional(memory_of(kItsBytes));
  const std::uint32_t number = keys->add(5, *memory);
  hold(number, another);
  expect_timed_out(remove(number, std::exchange(memory, std::nullopt)));
  expect_timed_out(remove(number, std::nullopt));
  EXPECT_EQ(mappings_of(kItsBytes), 1U);
  let_go();
  expect_at_once(remove(number, std::nullopt));
  EXPECT_EQ(mappings_of(kItsBytes), 0U);
  expect_at_once(remove(number, std::nullopt));
}

/// Two threads end the same key. Either one may be the one that releases its memory, and either one
/// may come second.
TEST_F(SharedKeysOfThis, KeepTheirMemoryInWhateverOrderTwoRemoveThem) {
  constexpr std::uint64_t kItsBytes = (3 << 20) + 16384;
  const OtherProcess another(sleeps);
  auto memory = std::make_optional(memory_of(kItsBytes));
  const std::uint32_t number = keys->add(5, *memory);
  hold(number, another);
  std::thread first([&] { expect_timed_out(remove(number, std::nullopt)); });
  std::this_thread::sleep_for(50ms);
  expect_timed_out(remove(number, std::exchange(memory, std::nullopt)));
  first.join();
  EXPECT_EQ(mappings_of(kItsBytes), 1U) << "a process still holds the key";
  let_go();
  expect_at_once(remove(number, std::nullopt));
  EXPECT_EQ(mappings_of(kItsBytes), 0U);
}

TEST_F(SharedKeysOfThis, AreEndedByManyThreadsEachByItself) {
  const OtherProcess another(sleeps);
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const ExportedMemory memory = memory_of();
      const auto place = static_cast<std::uint32_t>(t);
      for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint32_t number = keys->add(t * 1000 + i, memory);
        if (i % 8 == 0) hold(number, another, place);
        std::thread letting([&] { let_go(place); });
        if (keys->remove(number, t * 1000 + i, memory, 20s)) ++ended;
        letting.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended, 800);
  for (std::uint64_t token = 0; token < 4000; token += 37) EXPECT_FALSE(is_there(token));
}

TEST_F(SharedKeysOfThis, EndInSpiteOfGarbageInTheHolds) {
  // The holds contain garbage: the number of no key, an owner that is no process, a count larger
  // than the number of holds.
  const std::uint32_t number = keys->add(5, memory_of());
  hold(number, 0, 0);
  hold(number, ~std::uint64_t{0}, 1);  // no process has that number
  hold(~0U, static_cast<std::uint64_t>(::getpid()), 2);
  hold(kSharedKeys + 1, static_cast<std::uint64_t>(::getpid()), 3);
  keys->holds().used = ~0U;
  expect_at_once(remove(number, std::nullopt));
  // A hold of a living process counts like one of a stopped process.
  const std::uint32_t next = keys->add(6, memory_of());
  hold(next, 1, kSharedHolds - 1);  // of process 1
  expect_timed_out(remove(next, std::nullopt, kPatience, 6));
}

TEST_F(SharedKeysOfThis, GiveTheHoldOfAnEndpointThatReportedToOneCallerAlone) {
  keys->holds().used = ~0U;  // a foreign value
  EXPECT_EQ(keys->take_hold(9, 3), nullptr);
  SharedHold& hold = keys->holds().holds[kSharedHolds - 1];
  hold.owner = 9;
  hold.endpoint = 3;
  EXPECT_EQ(keys->take_hold(9, 3), nullptr) << "it has not told yet";
  hold.told = SharedHold::kTold;
  EXPECT_EQ(keys->take_hold(9, 4), nullptr);
  EXPECT_EQ(keys->take_hold(8, 3), nullptr);
  EXPECT_EQ(keys->take_hold(9, 3), &hold);
  EXPECT_EQ(keys->take_hold(9, 3), nullptr);
}

/// A key is ended by its place and its token, because another key may have the place by now.
TEST_F(SharedKeysOfThis, AreNotEndedByAnothersToken) {
  const std::uint32_t number = keys->add(5, memory_of());
  expect_at_once(remove(number, std::nullopt, kPatience, 5 + kSharedKeys));
  EXPECT_TRUE(is_there(5));
  expect_at_once(remove(number, std::nullopt));
  EXPECT_EQ(keys->add(5 + kSharedKeys, memory_of()), number);
  expect_at_once(remove(number, std::nullopt));
  EXPECT_TRUE(is_there(5 + kSharedKeys));
}

TEST(ProcessHasEnded, KnowsProcessesThatLiveAndThatDoNot) {
  OtherProcess another(sleeps);
  const auto id = static_cast<std::uint32_t>(another.id());
  EXPECT_FALSE(process_has_ended(id));
  another.stop();
  EXPECT_FALSE(process_has_ended(id));
  another.make_zombie();
  EXPECT_TRUE(process_has_ended(id));
  another.kill();
  EXPECT_TRUE(process_has_ended(id));
  EXPECT_FALSE(process_has_ended(static_cast<std::uint32_t>(::getpid())));
  EXPECT_FALSE(process_has_ended(1)) << "another user's, perhaps";
  for (const std::uint32_t none : {0U, 0x7fffffffU, 0x80000000U, ~0U})
    EXPECT_TRUE(process_has_ended(none)) << none;
}

// --- the file of keys

TEST_F(SharedKeysOfThis, AreReadByOthersAlone) {
  const std::uint32_t number = keys->add(5, memory_of());
  OtherProcess another([&](const Talk&) {
    const SharedFileName& name = keys->name();
    const std::string path =
        "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
    const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(file);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
    EXPECT_EQ(errno, EPERM);
    const std::uint64_t word = 1;
    EXPECT_EQ(::pwrite(file.get(), &word, sizeof word, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(::ftruncate(file.get(), 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    EXPECT_EQ(errno, EPERM);
    void* const read = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
    ASSERT_NE(read, MAP_FAILED);
    EXPECT_EQ(::mprotect(read, 4096, PROT_READ | PROT_WRITE), -1);
    EXPECT_EQ(static_cast<const SharedKeyFile*>(read)->magic, kSharedKeysMagic);
    // Opened like the library does.
    EXPECT_TRUE(SharedFile::open(name, sizeof(SharedKeyFile), false));
  });
  another.expect_good();
  EXPECT_TRUE(is_there(5));
  expect_at_once(remove(number, std::nullopt));
}

// --- the keys of a process

class SharedExports : public ::testing::Test {
 protected:
  SharedExports() {
    const auto shared = share_exports(kPatience);
    EXPECT_TRUE(shared);
    allocated = *host->allocate(kBytes);
  }

  [[nodiscard]] Export exported() const {
    return Export({.allocation = allocated,
                   .address = allocated.address(),
                   .length_bytes = kBytes,
                   .access = Access::remote_read});
  }

  static void hold(std::uint32_t number, const OtherProcess& by) {
    SharedHoldFile& holds = shared_exports()->holds();
    holds.holds[0].owner = SharedHold::owner_of(static_cast<std::uint32_t>(by.id()), 5);
    holds.holds[0].key = number;
    holds.used = 1;
  }

  static void let_go() { shared_exports()->holds().holds[0].key = 0; }

  /// Makes keys until one gets this place.
  [[nodiscard]] Export exported_at(std::uint32_t number) const {
    constexpr int kTries = 400'000;  // one in 16,384 gets it
    for (int i = 0; i < kTries; ++i) {
      Export tried = exported();
      if (tried.shared() == number) return tried;
    }
    ADD_FAILURE() << "no other key has had that place";
    return {};
  }

  std::shared_ptr<MemoryDomain> host = test::host_memory(true);
  Allocation allocated = *host->allocate(kBytes);
};

TEST_F(SharedExports, AreFoundByOthersFromTheFirstToTheLastMoment) {
  Export one = exported();
  EXPECT_NE(one.shared(), 0U);
  EXPECT_TRUE(one.end());
  const Export moved = exported();
  EXPECT_NE(moved.shared(), 0U);
}

TEST_F(SharedExports, SayThatAStoppedProcessIsAtTheMemory) {
  const OtherProcess another(sleeps);
  another.stop();
  Export one = exported();
  hold(one.shared(), another);
  for (int i = 0; i < 2; ++i) {
    const auto begun = Clock::now();
    const auto ended = one.end();
    ASSERT_FALSE(ended) << i;
    EXPECT_EQ(ended.error().code, Errc::timed_out) << describe(ended.error());
    EXPECT_EQ(ended.error().hint, Hint::peer_unsettled);
    EXPECT_GE(Clock::now() - begun, kPatience);
    EXPECT_LT(Clock::now() - begun, kPatience + kSlack);
  }
  let_go();
  EXPECT_TRUE(one.end());
}

/// A key that timed out while it waited for its end is ended again, or destroyed. By then another
/// key may have its place.
TEST_F(SharedExports, EndNoLaterKeyInTheirPlace) {
  const OtherProcess another(sleeps);
  std::optional<Export> one = exported();
  const std::uint32_t number = one->shared();
  hold(number, another);
  EXPECT_FALSE(one->end());
  let_go();
  for (const bool goes : {false, true}) {
    Export next = exported_at(number);
    ASSERT_EQ(next.shared(), number);
    if (goes) {
      one.reset();
    } else {
      EXPECT_TRUE(one->end());
    }
    const auto file = SharedFile::open(shared_exports()->name(), sizeof(SharedKeyFile), false);
    ASSERT_TRUE(file);
    void* const mapped =
        ::mmap(nullptr, sizeof(SharedKeyFile), PROT_READ, MAP_SHARED, file->get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const SharedKeyEntry& entry = static_cast<const SharedKeyFile*>(mapped)->keys[number - 1];
    EXPECT_EQ(entry.token, next.token());
    EXPECT_EQ(entry.state % 2, 1U) << "it was ended with the key before it";
    ::munmap(mapped, sizeof(SharedKeyFile));
  }
}

/// One thread ends all expired keys. If a stopped process holds one of them, the others must still
/// close.
TEST_F(SharedExports, ExpireInTimeWhileTheEndOfAnotherExportWaits) {
  ASSERT_TRUE(share_exports(2s));
  const Context context = *Context::create({.memory = {}, .nics = {"none"}, .paths = {}});
  const Region region = *context.register_memory(allocated, Access::remote_read);
  const OtherProcess another(sleeps);
  const MemoryKey first = *MemoryKey::pack(region, {.expires_after = 50ms});
  SharedHoldFile& holds = shared_exports()->holds();
  // A process holds the first key, wherever that is.
  const auto file = SharedFile::open(shared_exports()->name(), sizeof(SharedKeyFile), false);
  ASSERT_TRUE(file);
  void* const mapped =
      ::mmap(nullptr, sizeof(SharedKeyFile), PROT_READ, MAP_SHARED, file->get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto& keys = static_cast<const SharedKeyFile*>(mapped)->keys;
  const auto place_of = [&](const MemoryKey& key) {
    const auto found = std::ranges::find_if(keys, [&](const SharedKeyEntry& entry) {
      return entry.state % 2 == 1 && entry.token == key.info().token;
    });
    return found == keys.end() ? 0 : static_cast<std::uint32_t>(found - keys.begin()) + 1;
  };
  ASSERT_NE(place_of(first), 0U);
  hold(place_of(first), another);
  const MemoryKey second = *MemoryKey::pack(region, {.expires_after = 150ms});
  EXPECT_NE(place_of(second), 0U);
  // The end of the first key still waits: share_exports() allows it 2 s.
  std::this_thread::sleep_for(800ms);
  EXPECT_FALSE(second.valid());
  EXPECT_EQ(place_of(second), 0U) << "others find it still";
  holds.holds[0].key = 0;
  ::munmap(mapped, sizeof(SharedKeyFile));
}

TEST_F(SharedExports, AChildLeavesExportsOfItsParentAlone) {
  Export one = exported();
  const std::uint32_t number = one.shared();
  OtherProcess child([&](const Talk&) {
    EXPECT_TRUE(one.end());
    one = Export();
    // A separate file with separate keys.
    const auto shared = share_exports(kPatience);
    ASSERT_TRUE(shared);
    EXPECT_EQ(shared->process, static_cast<std::uint32_t>(::getpid()));
    EXPECT_NE(exported().shared(), 0U);
  });
  child.expect_good();
  EXPECT_EQ(one.shared(), number);
  EXPECT_EQ(shared_exports()->name().process, static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(one.end());
}

}  // namespace
}  // namespace hbmwire::detail
