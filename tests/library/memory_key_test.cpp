// SPDX-License-Identifier: MIT
#include "hbmwire/memory_key.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <thread>

#include "hbmwire/low_level/connection.hpp"

#include "emulated_hooks.hpp"
#include "helpers.hpp"
#include "key_holder.hpp"
#include "open_memory.hpp"
#include "registration/exports.hpp"  // the end of a key, for movers

namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using test::kBoth;
using test::must;
using test::take;

constexpr std::size_t kKeyBytes = 10'000;

Result<Region> region_of(MemoryType type, Access access) {
  HBMWIRE_TRY_ASSIGN(const Nic one, Nic::open("emu0"));
  HBMWIRE_TRY_ASSIGN(const Nic two, Nic::open("emu1"));
  MemoryOptions options;
  if (type == MemoryType::gaudi) options.owner = MemoryOptions::Owner::hl_thunk;
  HBMWIRE_TRY_ASSIGN(const auto domain, test::open_memory(type, options));
  HBMWIRE_TRY_ASSIGN(const Allocation memory, domain->allocate(kKeyBytes));
  return Nic::register_memory(std::array{one, two}, memory, access);
}

TEST(MemoryKey, BytesAndInfoOfAKeyAgree) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  const AttachAddress attach{.socket = "hbmwire/attach", .secret = {1, 2, 3}};
  const auto before = std::chrono::system_clock::now();
  const MemoryKey key = take(MemoryKey::pack(
      region,
      {.offset_bytes = 5, .access = Access::remote_read, .expires_after = 1h, .attach = attach}));
  const auto after = std::chrono::system_clock::now();
  const RemoteKey remote = take(RemoteKey::unpack(key.bytes()));
  EXPECT_EQ(remote.info(), key.info());
  EXPECT_EQ(remote.info().type, MemoryType::host);
  EXPECT_EQ(remote.info().address, region.address() + 5);
  EXPECT_EQ(remote.info().length_bytes, kKeyBytes - 5);
  EXPECT_EQ(remote.info().access, Access::remote_read);
  EXPECT_EQ(remote.info().attach, attach);
  ASSERT_TRUE(remote.info().expires);
  EXPECT_GE(*remote.info().expires, before + 1h);
  EXPECT_LE(*remote.info().expires, after + 1h);
  // Optional parts that were not requested are missing.
  const MemoryKey plain = take(MemoryKey::pack(region));
  EXPECT_FALSE(plain.info().expires);
  EXPECT_FALSE(plain.info().attach);
  EXPECT_EQ(plain.info().access, kBoth);
}

TEST(MemoryKey, IsRefusedWithItsReason) {
  const Region open = take(region_of(MemoryType::host, kBoth));
  const Region for_reading = take(region_of(MemoryType::host, Access::remote_read));
  const Region closed = take(region_of(MemoryType::host, Access::local_write));
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

  struct Case {
    const char* what;
    const Region& region;
    MemoryKeyOptions options;
    Hint hint = Hint::none;
  };

  const std::vector<Case> cases{
      {"behind the end", open, {.offset_bytes = kKeyBytes}},
      {"far behind the end", open, {.offset_bytes = most}},
      {"over the end", open, {.offset_bytes = 1, .length_bytes = kKeyBytes}},
      {"around the end", open, {.offset_bytes = 2, .length_bytes = most}},
      {"of no bytes", open, {.length_bytes = 0}},
      {"no access", open, {.access = Access::none}, Hint::memory_key_access},
      {"local access", open, {.access = Access::local_write}, Hint::memory_key_access},
      {"local access, too",
       open,
       {.access = Access::local_write | Access::remote_read},
       Hint::memory_key_access},
      {"access that there is not",
       open,
       {.access = static_cast<Access>(static_cast<unsigned>(kAllAccess) + 1)},
       Hint::memory_key_access},
      {"access that there is not, too",
       open,
       {.access = static_cast<Access>(0xff)},
       Hint::memory_key_access},
      {"more access", for_reading, {.access = kBoth}, Hint::memory_key_access},
      {"other access", for_reading, {.access = Access::remote_write}, Hint::memory_key_access},
      {"to a closed region", closed, {}, Hint::memory_key_access},
      {"has expired", open, {.expires_after = 0ns}},
      {"expired before", open, {.expires_after = -1ns}},
      {"nameless socket", open, {.attach = AttachAddress{}}},
      {"long name", open, {.attach = AttachAddress{.socket = std::string(101, 'x'), .secret = {}}}},
  };
  const std::string objects = test::live_objects();
  for (const Case& one : cases) {
    const auto key = MemoryKey::pack(one.region, one.options);
    ASSERT_FALSE(key) << one.what;
    EXPECT_EQ(key.error().code, Errc::invalid_argument) << one.what;
    EXPECT_EQ(key.error().stage, Stage::register_memory) << one.what;
    EXPECT_EQ(key.error().hint, one.hint) << one.what << ": " << describe(key.error());
  }
  EXPECT_EQ(test::live_objects(), objects);
}

TEST(MemoryKey, NamesEachGidOnce) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  const std::array twice{take(Nic::open("emu0")), take(Nic::open("emu0"))};
  const Region ambiguous = take(Nic::register_memory(twice, region.allocation(), kBoth));
  const auto key = MemoryKey::pack(ambiguous);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Errc::invalid_argument) << describe(key.error());
}

TEST(MemoryKey, TheKeyOfARegionItselfCannotBeRevoked) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  MemoryKey key = take(MemoryKey::pack(region));
  const auto revoked = key.revoke();
  ASSERT_FALSE(revoked);
  EXPECT_EQ(revoked.error().code, Errc::not_supported);
  EXPECT_EQ(revoked.error().hint, Hint::memory_key_not_revocable);
  EXPECT_TRUE(key.valid());
}

TEST(MemoryKey, AChildDoesNotRevokeKeysOfItsParent) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  MemoryKey key = take(MemoryKey::pack(region, {.revocable = true, .expires_after = 1h}));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto revoked = key.revoke();
    ::_exit(!revoked && revoked.error().code == Errc::not_supported ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  test::KeyHolder peer("emu1");
  const Nic nic = region.nics().front();
  std::array<std::byte, 10> got{};
  const RemoteKey remote = take(RemoteKey::unpack(key.bytes()));
  const RemoteMemory all = take(remote.on(peer.connect(nic).here));
  EXPECT_FALSE(peer.read(nic, take(all.slice(0, 10)), got));
  must(key.revoke());
  EXPECT_TRUE(test::refused_by_nic(peer.read(nic, take(all.slice(0, 10)), got)));
}

/// Whether code that moves bytes in this process finds the key's memory.
bool is_found(const MemoryKey& key, Access needed) {
  const MemoryKeyInfo& info = key.info();
  return detail::ExportHold::take(info.token, needed, info.address, info.length_bytes).has_value();
}

TEST(MemoryKeyToken, GivesTheAccessOfTheKey) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  const MemoryKey key =
      take(MemoryKey::pack(region, {.offset_bytes = 100, .length_bytes = 50, .access = kBoth}));
  const MemoryKey reading = take(MemoryKey::pack(region, {.access = Access::remote_read}));
  EXPECT_NE(key.info().token, reading.info().token);
  EXPECT_TRUE(is_found(key, Access::remote_write));
  EXPECT_TRUE(is_found(reading, Access::remote_read));
  EXPECT_FALSE(is_found(reading, Access::remote_write));
  const std::uint64_t first = region.address() + 100;
  const auto hold = take(detail::ExportHold::take(key.info().token, kBoth, first, 50));
  EXPECT_EQ(hold.memory().allocation.address(), region.address());
  EXPECT_EQ(hold.memory().address, first);
  EXPECT_EQ(hold.memory().path, Path::host);
  for (const auto& [address, length] : {std::pair{first - 1, 2U}, {first, 51U}, {first + 50, 1U}})
    EXPECT_FALSE(detail::ExportHold::take(key.info().token, kBoth, address, length));
}

TEST(MemoryKeyToken, EndsWithItsKey) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  MemoryKey revoked = take(MemoryKey::pack(region, {.revocable = true}));
  EXPECT_TRUE(is_found(revoked, Access::remote_read));
  must(revoked.revoke());
  EXPECT_FALSE(is_found(revoked, Access::remote_read));

  const auto end = std::chrono::steady_clock::now() + 50ms;
  const MemoryKey expiring = take(MemoryKey::pack(region, {.expires_after = 50ms}));
  const bool found = is_found(expiring, Access::remote_read);
  EXPECT_TRUE(found || std::chrono::steady_clock::now() >= end) << "before its time";
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(is_found(expiring, Access::remote_read));

  // With the region's own registration, and with one that only the key has.
  for (const bool own : {false, true}) {
    auto key = std::make_optional(take(MemoryKey::pack(region, {.revocable = own})));
    const MemoryKeyInfo info = key->info();
    const auto find = [&] {
      return detail::ExportHold::take(info.token, kBoth, info.address, info.length_bytes);
    };
    EXPECT_TRUE(find());
    key.reset();
    EXPECT_FALSE(find());
  }
}

TEST(MemoryKeyToken, IsHeldUntilItsMemoryIsLeftAlone) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  // With the region's own registration, and with one that only the key has.
  for (const bool own : {false, true}) {
    auto key = std::make_optional(take(MemoryKey::pack(region, {.revocable = own})));
    const MemoryKeyInfo info = key->info();
    std::atomic<bool> held{false};
    std::atomic<bool> left{false};
    std::thread holder([&] {
      const auto hold =
          take(detail::ExportHold::take(info.token, kBoth, info.address, info.length_bytes));
      held = true;
      held.notify_all();
      // The longer, the more likely the test fails if the call does not wait.
      std::this_thread::sleep_for(20ms);
      left = true;
    });
    held.wait(false);
    if (own) {
      must(key->revoke());
    } else {
      key.reset();
    }
    EXPECT_TRUE(left);
    holder.join();
  }
}

/// Only the key keeps the memory alive, so its end is visible.
TEST(MemoryKeyToken, ExpiryWaitsForUsersOfTheMemory) {
  std::optional region = take(region_of(MemoryType::gaudi, kBoth));
  const std::uint64_t address = region->address();
  const auto key =
      take(MemoryKey::pack(*region, {.access = Access::remote_read, .expires_after = 1s}));
  const auto expired = std::chrono::steady_clock::now() + 1s;
  std::optional hold =
      take(detail::ExportHold::take(key.info().token, Access::remote_read, address, kKeyBytes));
  region.reset();
  std::this_thread::sleep_until(expired + 100ms);
  EXPECT_FALSE(is_found(key, Access::remote_read));
  const std::string held = test::live_objects();
  hold.reset();
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (test::live_objects() == held && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(1ms);
  EXPECT_NE(test::live_objects(), held) << "the memory had gone before the hold";
}

TEST(RemoteKey, IsForTheConnectionsThatItsExporterMeant) {
  const Region region = take(region_of(MemoryType::host, kBoth));
  const Nic first = region.nics().at(0);
  const Region alone = take(first.register_memory(region.allocation(), kBoth));
  const MemoryKey key = take(MemoryKey::pack(alone));
  const RemoteKey remote = take(RemoteKey::unpack(key.bytes()));
  const test::KeyHolder peer("emu1");

  const auto link = peer.connect(first);
  EXPECT_EQ(take(remote.on(link.here)), alone.remote());
  const auto elsewhere = remote.on(peer.connect(region.nics().at(1)).here);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().hint, Hint::memory_key_nic) << describe(elsewhere.error());

  const Connection unconnected = take(Connection::create(first, {}));
  EXPECT_FALSE(unconnected.remote());
  EXPECT_EQ(remote.on(unconnected).error().code, Errc::invalid_argument);

  ConnectionAddress restarted = *link.here.remote();
  restarted.incarnation += 1;
  const auto another = remote.on(restarted);
  ASSERT_FALSE(another);
  EXPECT_EQ(another.error().hint, Hint::memory_key_other_process) << describe(another.error());
  EXPECT_TRUE(remote.on(restarted.gid)) << "a GID does not tell one process from another";
}

/// The whole life of a key, with its own NICs and memory.
Result<void> life_of_a_key(MemoryType type) {
  HBMWIRE_TRY_ASSIGN(const Region region, region_of(type, kBoth));
  HBMWIRE_TRY_ASSIGN(const MemoryKey plain, MemoryKey::pack(region));
  HBMWIRE_TRY_ASSIGN(MemoryKey narrow, MemoryKey::pack(region, {.offset_bytes = 100}));
  HBMWIRE_TRY_ASSIGN(const MemoryKey expiring, MemoryKey::pack(region, {.expires_after = 1h}));
  HBMWIRE_TRY(narrow.revoke());
  EXPECT_FALSE(narrow.valid());
  HBMWIRE_TRY(RemoteKey::unpack(expiring.bytes()));
  return {};
}

class MemoryKeySweep : public testing::TestWithParam<MemoryType> {};

TEST_P(MemoryKeySweep, EachFailureLeavesNothingBehind) {
  for (int i = 0; i < 10; ++i) must(life_of_a_key(GetParam()));
  ASSERT_EQ(test::live_objects(), "");
  const int descriptors = test::open_descriptors();
  const int mappings = test::file_mappings();
  int failures = 0;
  for (long n = 0;; ++n) {
    ASSERT_LT(n, 1000);
    test::fail_nth_call("nic", n, EIO);
    const auto result = life_of_a_key(GetParam());
    const long counted = test::fail_nth_call("nic", -1, 0);
    EXPECT_EQ(test::live_objects(), "") << "after call " << n << " failed";
    EXPECT_EQ(test::open_descriptors(), descriptors) << "after call " << n << " failed";
    EXPECT_LE(test::file_mappings(), mappings + 2) << "after call " << n << " failed";
    if (counted <= n) {
      EXPECT_TRUE(result) << describe(result.error());
      break;
    }
    if (!result) ++failures;
  }
  // There are two NICs; each is opened, and registers the region and two keys.
  EXPECT_GE(failures, 2 * (2 + 3)) << "the sweep met fewer calls than the life has";
}

INSTANTIATE_TEST_SUITE_P(Memory, MemoryKeySweep,
                         testing::Values(MemoryType::host, MemoryType::gaudi),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace hbmwire
