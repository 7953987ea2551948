// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ends.hpp"

namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

class OneSided : public ::testing::TestWithParam<MemoryType> {};

TEST_P(OneSided, PutArrivesWhereItWasAimed) {
  Ends ends;
  Memory source(ends.context, GetParam(), kBytes);
  Memory target(ends.context, GetParam(), kBytes);
  source.fill(1);
  target.fill(2);
  good(ends.listener.advertise("target", target.region()));
  Result<RemoteRegion> remote = tl::make_unexpected(Error{});
  beside(ends.b_worker, [&] { remote = ends.a->remote("target", within(10s)); });
  ASSERT_TRUE(remote) << describe(remote.error());
  Transfer put = value(ends.a->put(source.slice(4096, 8192), remote->slice(100, 8192),
                                   {.level = CompletionLevel::visible}));
  good(put.wait(10s));
  auto expected = pattern(kBytes, 2);
  const auto from = pattern(kBytes, 1);
  std::memcpy(expected.data() + 100, from.data() + 4096, 8192);
  EXPECT_TRUE(same_bytes(target.contents(), expected));
  EXPECT_EQ(put.bytes(), 8192U);

  Transfer get = value(ends.a->get(source.slice(0, kBytes), remote->slice(0, kBytes)));
  good(get.wait(10s));
  EXPECT_TRUE(same_bytes(source.contents(), expected));
}

INSTANTIATE_TEST_SUITE_P(Memories, OneSided,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                           MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

TEST(Put, ShortOnesFromHostMemoryStandInTheRequest) {
  Ends ends;
  Memory target(ends.context, MemoryType::gaudi, kBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  const auto protocol = [&](MemoryType from, std::uint64_t bytes) {
    Memory source(ends.context, from, kBytes);
    source.fill(7);
    Transfer put = value(ends.a->put(source.region().slice(0, bytes), remote.slice(0, bytes)));
    good(put.wait(10s));
    const auto wanted = pattern(kBytes, 7);
    const auto got = target.contents();
    EXPECT_TRUE(
        std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(bytes), wanted.begin()));
    return put.explain().protocol;
  };
  EXPECT_EQ(protocol(MemoryType::host, 8), Protocol::inlined);
  EXPECT_EQ(protocol(MemoryType::host, kBytes), Protocol::direct);
  // The CPU can't read it.
  EXPECT_EQ(protocol(MemoryType::gaudi, 8), Protocol::direct);
}

/// Of two cards whose memory goes by the same path and NIC.
TEST(Put, EachTellsOfItsOwnDevice) {
  Ends ends;
  Memory target(ends.context, MemoryType::host, kBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  std::vector<Region> sources;
  for (const char* const device : {"0", "1"}) {
    const Allocation memory = value(ends.context.allocate(
        MemoryType::gaudi, kBytes, {.device = device, .owner = MemoryOptions::Owner::hl_thunk}));
    sources.push_back(value(ends.context.register_memory(memory, kAll)));
  }
  const auto device_of = [](const std::vector<PathTried>& paths) {
    const auto refused = std::ranges::find_if(
        paths, [](const PathTried& tried) { return tried.refusal.has_value(); });
    return refused == paths.end() ? std::string() : std::string(refused->refusal->subject);
  };
  ASSERT_NE(device_of(sources[0].explain()), device_of(sources[1].explain()));
  for (std::size_t i = 0; i < 8; ++i) {
    const Region& source = sources[i % 2];
    Transfer put = value(ends.a->put(source.slice(0, 8192), remote.slice(0, 8192)));
    good(put.wait(10s));
    EXPECT_EQ(device_of(put.explain().local), device_of(source.explain()));
  }
}

TEST(Atomics, ReturnWhatWasThere) {
  Ends ends;
  Memory memory(ends.context, MemoryType::host, 4096);
  std::vector<std::byte> zero(4096);
  memory.set(zero);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer add = value(ends.a->fetch_add(remote.slice(8, 8), 5));
  good(add.wait(10s));
  EXPECT_EQ(add.value(), 0U);
  Transfer swap = value(ends.a->compare_swap(remote.slice(8, 8), 5, 77));
  good(swap.wait(10s));
  EXPECT_EQ(swap.value(), 5U);
  EXPECT_EQ(memory.contents().at(8), std::byte{77});
}

TEST(Queue, TakesMoreThanTheSendQueue) {
  Ends ends({.send_depth = 4});
  Memory source(ends.context, MemoryType::host, 65536);
  Memory target(ends.context, MemoryType::host, 65536);
  source.fill(3);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  std::vector<Transfer> transfers;
  for (std::uint64_t i = 0; i < 1024; ++i)
    transfers.push_back(value(ends.a->put(source.slice(i * 64, 64), remote.slice(i * 64, 64))));
  for (Transfer& transfer : transfers) good(transfer.wait(10s));
  EXPECT_TRUE(same_bytes(target.contents(), source.contents()));
}

TEST(Failing, ARevokedKeyFailsTheTransferAndEndsTheEndpoint) {
  Ends ends;
  Memory memory(ends.context, MemoryType::host, 4096);
  MemoryKey key = value(MemoryKey::pack(memory.region(), {.revocable = true}));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  good(key.revoke());
  Transfer put = value(ends.a->put(memory.slice(0, 64), remote.slice(0, 64)));
  ends.drive([&] { return put.done(); });
  const auto over = put.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::permission_denied);
  EXPECT_TRUE(put.settled());
  EXPECT_EQ(ends.a->phase(), EndpointPhase::failed);
  ends.drive([&] { return ends.b->phase() == EndpointPhase::failed; });
}

}  // namespace
}  // namespace hbmwire::test
