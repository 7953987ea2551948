// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "hbmwire/buffer.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "emulated_hooks.hpp"
#include "key_holder.hpp"
#include "memory_contract.hpp"

// Keys to every kind of memory, with two NICs, used by a peer with its own NIC.
namespace hbmwire::test {

namespace {

constexpr std::size_t kSize = 20'000;

RemoteKey unpacked(const MemoryKey& key) { return take(RemoteKey::unpack(key.bytes())); }

/// The contents of memory as the host sees them after writes of `nic`.
std::vector<std::byte> contents(const Allocation& memory, const Nic& nic) {
  Buffer buffer = take(Buffer::create(memory, nic, Access::local_write));
  std::vector<std::byte> bytes(memory.size_bytes());
  must(buffer.read(0, bytes, soon()));
  return bytes;
}

/// Checks the access of a peer with `key` through each of its NICs: exactly the access in the key
/// works. Everything else is refused, and changes nothing.
void expect_exactly(const MemoryKey& key, const Allocation& memory, std::span<const Nic> nics) {
  KeyHolder peer("emu1");
  auto model = pattern(memory.size_bytes(), 1);
  const std::uint64_t first = key.info().address;
  const std::uint64_t length = key.info().length_bytes;
  const auto place = static_cast<std::ptrdiff_t>(first - memory.address());
  const bool writes = has(key.info().access, Access::remote_write);
  const bool reads = has(key.info().access, Access::remote_read);
  unsigned seed = 2;
  for (const Nic& nic : nics) {
    const RemoteMemory all = take(unpacked(key).on(peer.connect(nic).here));
    EXPECT_EQ(all.address, first);
    EXPECT_EQ(all.length_bytes, length);
    std::vector<std::byte> got(length);
    const auto read = peer.read(nic, all, got);
    if (reads) {
      EXPECT_FALSE(read) << describe(*read);
      EXPECT_TRUE(std::equal(got.begin(), got.end(), model.begin() + place));
    } else {
      EXPECT_TRUE(refused_by_nic(read));
      EXPECT_EQ(got, std::vector(length, std::byte{0xee})) << "disclosed";
    }
    const auto bytes = pattern(length, seed++);
    const auto written = peer.write(nic, all, bytes);
    if (writes) {
      EXPECT_FALSE(written) << describe(*written);
      std::ranges::copy(bytes, model.begin() + place);
    } else {
      EXPECT_TRUE(refused_by_nic(written));
    }
    std::vector<RemoteMemory> outside{{first - 1, 1, all.remote_key},
                                      {first + length, 1, all.remote_key},
                                      {first - 1, 2, all.remote_key},
                                      {first, length + 1, all.remote_key}};
    for (const RemoteMemory& range : outside) {
      std::vector<std::byte> beside(range.length_bytes);
      EXPECT_TRUE(refused_by_nic(peer.read(nic, range, beside)));
      EXPECT_EQ(beside, std::vector(range.length_bytes, std::byte{0xee})) << "disclosed";
      EXPECT_TRUE(refused_by_nic(peer.write(nic, range, beside)));
    }
    EXPECT_TRUE(same_bytes(contents(memory, nic), model)) << "by " << nic.info().name;
  }
}

}  // namespace

/// Memory, and a region of it on both NICs.
class KeyedMemory {
 public:
  KeyedMemory(Allocation memory, Access access)
      : nics{take(Nic::open("emu0")), take(Nic::open("emu1"))},
        region(take(Nic::register_memory(nics, memory, access))),
        allocation(std::move(memory)) {
    Buffer buffer = take(Buffer::create(allocation, nics[0], Access::local_write));
    must(buffer.write(0, pattern(kSize, 1), soon()));
  }

  std::array<Nic, 2> nics;
  Region region;
  Allocation allocation;
};

TEST_P(MemoryKeys, AKeyToAWholeRegionIsTheRegionsOwn) {
  KeyedMemory memory(make(kSize, 1), kBoth);
  const std::string objects = live_objects();
  const MemoryKey key = take(MemoryKey::pack(memory.region));
  EXPECT_EQ(live_objects(), objects) << "nothing is registered for it";
  EXPECT_FALSE(key.revocable());
  EXPECT_EQ(key.info().type, GetParam().type);
  ASSERT_EQ(key.info().nics.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(key.info().nics[i].remote_key, memory.region.remote(memory.nics.at(i)).remote_key);
  expect_exactly(key, memory.allocation, memory.nics);
}

TEST_P(MemoryKeys, ANarrowKeyOpensExactlyItsBytes) {
  for (const auto& [offset, length] :
       {std::pair<std::uint64_t, std::uint64_t>{4095, 4098}, {9'999, 1}, {4096, 4096}}) {
    KeyedMemory memory(make(kSize, 2), kBoth);
    const int descriptors = open_descriptors();
    const MemoryKey key =
        take(MemoryKey::pack(memory.region, {.offset_bytes = offset, .length_bytes = length}));
    EXPECT_EQ(open_descriptors(), descriptors) << "the dma-buf is the region's";
    EXPECT_TRUE(key.revocable());
    expect_exactly(key, memory.allocation, memory.nics);
  }
}

TEST_P(MemoryKeys, AKeyForReadingOrWritingForbidsTheOther) {
  for (const Access access : {Access::remote_write, Access::remote_read}) {
    // `open` is the access that the region itself allows: both kinds, or none without a key.
    for (const Access open : {kBoth, Access::local_write}) {
      KeyedMemory memory(make(kSize, 3), open);
      const MemoryKey key = take(MemoryKey::pack(memory.region, {.access = access}));
      EXPECT_TRUE(key.revocable());
      expect_exactly(key, memory.allocation, memory.nics);
    }
  }
}

TEST_P(MemoryKeys, ARevokedKeyOpensNothing) {
  KeyedMemory memory(make(kSize, 4), kBoth);
  KeyHolder peer("emu1");
  MemoryKey key = take(MemoryKey::pack(memory.region, {.revocable = true}));
  const MemoryKey other = take(MemoryKey::pack(memory.region, {.revocable = true}));
  EXPECT_NE(key.info().nics, other.info().nics);
  EXPECT_TRUE(key.valid());
  must(key.revoke());
  EXPECT_FALSE(key.valid());
  must(key.revoke());
  for (const Nic& nic : memory.nics) {
    const RemoteMemory dead = take(unpacked(key).on(peer.connect(nic).here));
    std::vector<std::byte> got(100);
    EXPECT_TRUE(refused_by_nic(peer.write(nic, take(dead.slice(0, 100)), got)));
    EXPECT_TRUE(refused_by_nic(peer.read(nic, take(dead.slice(0, 100)), got)));
  }
  expect_exactly(other, memory.allocation, memory.nics);
  EXPECT_TRUE(other.valid());
}

TEST_P(MemoryKeys, ADestroyedKeyOpensNothing) {
  KeyedMemory memory(make(kSize, 4), kBoth);
  KeyHolder peer("emu1");
  const std::string objects = live_objects();
  RemoteMemory dead;
  {
    const MemoryKey key = take(MemoryKey::pack(memory.region, {.length_bytes = 100}));
    EXPECT_NE(live_objects(), objects);
    dead = take(unpacked(key).on(peer.connect(memory.nics[1]).here));
    std::vector<std::byte> got(100);
    EXPECT_FALSE(peer.read(memory.nics[1], dead, got));
  }
  std::vector<std::byte> got(100);
  EXPECT_TRUE(refused_by_nic(peer.read(memory.nics[1], dead, got)));
  EXPECT_EQ(live_objects(), objects);
}

TEST_P(MemoryKeys, AnExpiredKeyOpensNothing) {
  using namespace std::chrono_literals;
  KeyedMemory memory(make(kSize, 5), kBoth);
  KeyHolder peer("emu1");
  const auto before = Deadline::Clock::now();
  const MemoryKey key = take(MemoryKey::pack(memory.region, {.expires_after = 50ms}));
  const RemoteMemory dying = take(unpacked(key).on(key.info().nics[0].gid));
  while (key.valid()) {
    ASSERT_LT(Deadline::Clock::now(), before + 10s);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GE(Deadline::Clock::now(), before + 50ms);
  std::vector<std::byte> got(100);
  EXPECT_TRUE(refused_by_nic(peer.write(memory.nics[0], take(dying.slice(0, 100)), got)));
  EXPECT_TRUE(refused_by_nic(peer.read(memory.nics[0], take(dying.slice(0, 100)), got)));
  const auto refused = unpacked(key).on(peer.connect(memory.nics[0]).here);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().hint, Hint::memory_key_expired) << describe(refused.error());
}

TEST_P(MemoryKeys, AKeyKeepsItsMemoryUntilItsEnd) {
  const Nic nic = take(Nic::open("emu0"));
  KeyHolder peer("emu1");
  // From now on, objects that the domain keeps exist.
  { const KeyedMemory first(make(kSize, 6), kBoth); }
  const std::string nothing = live_objects();
  const auto expected = pattern(kSize, 1);
  // With the region's own registration, and with one that only the key has.
  for (const bool own : {false, true}) {
    std::optional<MemoryKey> key;
    {
      KeyedMemory memory(make(kSize, 6), kBoth);
      const Region region = take(nic.register_memory(memory.allocation, Access::remote_read));
      key = take(MemoryKey::pack(region, {.revocable = own}));
    }
    const RemoteMemory all = take(unpacked(*key).on(peer.connect(nic).here));
    std::vector<std::byte> got(50);
    EXPECT_FALSE(peer.read(nic, take(all.slice(100, 50)), got));
    EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.begin() + 100));
    EXPECT_EQ(key->revoke().has_value(), own);
    if (!own) key.reset();
    EXPECT_TRUE(refused_by_nic(peer.read(nic, take(all.slice(100, 50)), got)));
    EXPECT_EQ(live_objects(), nothing) << "the memory has been given back";
  }
}

}  // namespace hbmwire::test
