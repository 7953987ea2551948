// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "hbmwire/memory_key.hpp"

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

TEST(Put, ShortPutsFromHostMemoryAreInlined) {
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
  // The CPU cannot read device memory, so it cannot put the bytes into the request.
  EXPECT_EQ(protocol(MemoryType::gaudi, 8), Protocol::direct);
}

/// Two cards whose memory uses the same path and NIC.
TEST(Put, EachPutReportsItsOwnDevice) {
  Ends ends;
  Memory target(ends.context, MemoryType::host, kBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  std::vector<Region> sources;
  // By hl-thunk, because SynapseAI would open only one card in a process.
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

TEST(Atomics, ReturnTheOldValue) {
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

/// The order holds even while requests wait for room.
TEST(Atomics, AtomicsAndGetsAreAnsweredInTheirOrder) {
  Ends ends({.send_depth = 4});
  constexpr std::uint64_t kCount = 64;
  Memory word(ends.context, MemoryType::host, 64);
  Memory seen(ends.context, MemoryType::host, kCount * 8);
  word.set(std::vector<std::byte>(64));
  const MemoryKey key = value(MemoryKey::pack(word.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  std::vector<Transfer> adds;
  std::vector<Transfer> gets;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    adds.push_back(value(ends.a->fetch_add(remote.slice(8, 8), 1)));
    gets.push_back(value(ends.a->get(seen.slice(i * 8, 8), remote.slice(8, 8))));
    if (i % 3 == 0) ends.a_worker.progress();  // makes room for some, while others wait
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    good(adds[i].wait(10s));
    EXPECT_EQ(adds[i].value(), i);
    good(gets[i].wait(10s));
  }
  const auto contents = seen.contents();
  for (std::uint64_t i = 0; i < kCount; ++i)
    EXPECT_EQ(contents.at(i * 8), static_cast<std::byte>(i + 1)) << i;
}

TEST(Keys, AllowWhatTheySayAndRefusalsHarmNothing) {
  Ends ends;
  Memory here(ends.context, MemoryType::host, 4096);
  Memory there(ends.context, MemoryType::host, 4096);
  std::vector<MemoryKey> keys;
  const auto open_for = [&](Access access) {
    keys.push_back(value(MemoryKey::pack(there.region(), {.access = access})));
    return value(ends.a->remote(value(RemoteKey::unpack(keys.back().bytes()))));
  };
  const RemoteRegion write = open_for(Access::remote_write);
  const RemoteRegion read = open_for(Access::remote_read);
  const RemoteRegion both = open_for(Access::remote_read | Access::remote_write);
  const auto refused = [&](const auto& started, Errc code, Hint hint) {
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, code) << describe(started.error());
    EXPECT_EQ(started.error().hint, hint) << describe(started.error());
    EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  };
  const auto not_allowed = [&](const auto& started) {
    refused(started, Errc::permission_denied, Hint::memory_key_access);
  };
  constexpr PutOptions kVisible{.level = CompletionLevel::visible};
  const TransferPart to_write{here.slice(0, 8), write.slice(0, 8)};
  const TransferPart to_read{here.slice(0, 8), read.slice(0, 8)};
  const TransferPart unequal{here.slice(0, 8), both.slice(0, 9)};
  not_allowed(ends.a->put(here.slice(0, 8), write.slice(0, 8), kVisible));
  not_allowed(ends.a->prepare_put({&to_write, 1}, kVisible));
  not_allowed(ends.a->fetch_add(both.slice(0, 8), 1));
  not_allowed(ends.a->compare_swap(both.slice(0, 8), 0, 1));
  not_allowed(ends.a->prepare_put({&to_read, 1}));
  not_allowed(ends.a->prepare_get({&to_write, 1}));
  refused(ends.a->prepare_put({&unequal, 1}), Errc::invalid_argument, Hint::none);
  refused(ends.a->prepare_get({&unequal, 1}), Errc::invalid_argument, Hint::none);
  // In the second round both regions are on the fast path of the check.
  for (int twice = 0; twice < 2; ++twice) {
    refused(ends.a->put(unequal.local, unequal.remote), Errc::invalid_argument, Hint::none);
    refused(ends.a->get(unequal.local, unequal.remote), Errc::invalid_argument, Hint::none);
    good(value(ends.a->put(here.slice(0, 8), both.slice(0, 8))).wait(10s));
    good(value(ends.a->get(here.slice(0, 8), both.slice(0, 8))).wait(10s));
  }
  for (std::uint64_t i = 0; i < 40; ++i) {  // many are in flight at once
    static_cast<void>(value(ends.a->put(here.slice(0, 8), both.slice(0, 8))));
    refused(ends.a->put(unequal.local, unequal.remote), Errc::invalid_argument, Hint::none);
  }
  good(value(ends.a->flush()).wait(10s));
}

TEST(Queue, GoesOnWithoutItsHandles) {
  Ends ends({.send_depth = 4});
  Memory source(ends.context, MemoryType::host, 65536);
  Memory target(ends.context, MemoryType::host, 65536);
  source.fill(3);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  value(ends.b->receive(target.slice(0, 64))).reset();  // takes the message even without its handle
  for (std::uint64_t i = 1; i < 1024; ++i)
    value(ends.a->put(source.slice(i * 64, 64), remote.slice(i * 64, 64))).reset();
  Transfer send = value(ends.a->send(source.slice(0, 64), {.level = CompletionLevel::arrived}));
  finish(ends, send);
  EXPECT_TRUE(same_bytes(target.contents(), source.contents()));
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
