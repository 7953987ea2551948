// SPDX-License-Identifier: MIT
#include <cstring>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

namespace hbmwire::test {
namespace {

RemoteRegion remote_of(const Endpoint& endpoint, const MemoryKey& key) {
  return value(endpoint.remote(value(RemoteKey::unpack(key.bytes()))));
}

TEST(Immediate, ComesBehindItsBytes) {
  Ends ends;
  for (const MemoryType type :
       {MemoryType::host, MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    Memory source(ends.context, type, kMessageBytes);
    Memory target(ends.context, type, kMessageBytes);
    const MemoryKey key = value(MemoryKey::pack(target.region()));
    const RemoteRegion remote = remote_of(*ends.a, key);
    for (unsigned round = 1; round <= 4; ++round) {
      source.fill(round);
      Transfer early;
      if (round % 2 == 0) early = value(ends.b->receive_immediate(target.all()));
      Transfer put = value(ends.a->put(source.all(), remote.slice(0, kMessageBytes),
                                       {.immediate = 0xabcd0000U + round}));
      if (!early) early = value(ends.b->receive_immediate(target.all()));
      finish(ends, early);
      EXPECT_EQ(early.value(), 0xabcd0000U + round);
      EXPECT_EQ(early.bytes(), kMessageBytes);
      EXPECT_TRUE(same_bytes(target.contents(), pattern(kMessageBytes, round)));
      finish(ends, put);
    }
  }
}

TEST(Immediate, WaitsAtTheSenderIfThePeerMakesNoProgress) {
  EndpointOptions options;
  options.receive_depth = 8;
  Ends ends(options);
  Memory memory(ends.context, MemoryType::host, 4096);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = remote_of(*ends.a, key);
  std::vector<Transfer> puts;
  for (std::uint32_t i = 0; i < 100; ++i)
    puts.push_back(value(ends.a->put(memory.slice(0, 8), remote.slice(64, 8), {.immediate = i})));
  for (int i = 0; i < 5000; ++i) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  // The peer has eight receives, so the ninth immediate waits.
  EXPECT_TRUE(puts[7].done());
  EXPECT_FALSE(puts[8].done());
  for (std::uint32_t i = 0; i < 100; ++i) {
    Transfer immediate = value(ends.b->receive_immediate());
    finish(ends, immediate);
    EXPECT_EQ(immediate.value(), i);
  }
  for (Transfer& put : puts) finish(ends, put);
}

TEST(Source, MayBeWrittenAgainOnceItIsSent) {
  Ends ends;
  constexpr std::uint64_t kBytes = 8000;  // a message of this size is sent eagerly
  Memory source(ends.context, MemoryType::host, kBytes);
  Memory target(ends.context, MemoryType::host, kBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = remote_of(*ends.a, key);
  for (unsigned round = 0; round < 100; ++round) {
    for (const bool message : {false, true}) {
      source.fill(2 * round);
      Transfer sent = value(message ? ends.a->send(source.all())
                                    : ends.a->put(source.all(), remote.slice(0, kBytes),
                                                  {.level = CompletionLevel::sent}));
      good(sent.wait(10s));
      source.fill(2 * round + 1);
      if (message) {
        Transfer receive = value(ends.b->receive(target.all()));
        finish(ends, receive);
      }
      ASSERT_TRUE(same_bytes(target.contents(), pattern(kBytes, 2 * round))) << message;
      target.fill(9999);
    }
  }
}

TEST(WorkerFlush, IsOverForEveryMemory) {
  Ends ends;
  for (const MemoryType type :
       {MemoryType::host, MemoryType::gaudi, MemoryType::cuda, MemoryType::rocm}) {
    Memory memory(ends.context, type, 4096);
    std::vector<Transfer> flushes;
    for (int i = 0; i < 200; ++i) flushes.push_back(value(ends.a_worker.flush(memory.all())));
    for (Transfer& flush : flushes) good(flush.wait(5s));
  }
  Memory memory(ends.context, MemoryType::host, 4096);
  // This slice ends one byte beyond the region.
  EXPECT_FALSE(ends.a_worker.flush(memory.slice(1, 4096)));
}

class Prepared : public ::testing::TestWithParam<MemoryType> {};

TEST_P(Prepared, MovesScatteredBlocksAgainAndAgain) {
  EndpointOptions options;
  options.send_depth = 16;
  Ends ends(options);
  constexpr std::uint64_t kBlock = 1024;
  constexpr std::uint64_t kBlocks = kMessageBytes / kBlock;
  Memory source(ends.context, GetParam(), kMessageBytes);
  Memory target(ends.context, GetParam(), kMessageBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = remote_of(*ends.a, key);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < kBlocks; ++i)
    parts.push_back(
        {source.slice(i * kBlock, kBlock), remote.slice((kBlocks - 1 - i) * kBlock, kBlock)});
  PreparedTransfer put =
      value(ends.a->prepare_put(parts, {.level = CompletionLevel::visible, .immediate = 77}));
  for (unsigned round = 1; round <= 3; ++round) {
    source.fill(round);
    Transfer run = value(put.post());
    EXPECT_EQ(put.post().error().code, Errc::busy);
    Transfer immediate = value(ends.b->receive_immediate());
    finish(ends, run);
    finish(ends, immediate);
    EXPECT_EQ(run.bytes(), kMessageBytes);
    EXPECT_EQ(immediate.value(), 77U);
    const auto from = pattern(kMessageBytes, round);
    const auto to = target.contents();
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(
          std::memcmp(from.data() + i * kBlock, to.data() + (kBlocks - 1 - i) * kBlock, kBlock), 0);
    }
  }
  PreparedTransfer get = value(ends.a->prepare_get(parts));
  target.fill(50);
  Transfer run = value(get.post());
  finish(ends, run);
  const auto from = pattern(kMessageBytes, 50);
  const auto to = source.contents();
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(std::memcmp(to.data() + i * kBlock, from.data() + (kBlocks - 1 - i) * kBlock, kBlock),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Memories, Prepared,
                         ::testing::Values(MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                           MemoryType::rocm),
                         [](const auto& type) { return std::string(to_string(type.param)); });

/// A list is posted in chunks. The immediate is not in the last chunk, because the READ that makes
/// the bytes visible follows it.
TEST(PreparedTransfer, WaitsForAPlaceForItsImmediateAlsoBeforeReads) {
  EndpointOptions options;
  options.send_depth = 16;  // 8 requests in each chunk
  options.receive_depth = 8;
  Ends ends(options);
  Memory memory(ends.context, MemoryType::host, 4096);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = remote_of(*ends.a, key);
  std::vector<TransferPart> parts;
  for (std::uint64_t i = 0; i < 8; ++i)
    parts.push_back({memory.slice(i * 64, 8), remote.slice(2048 + i * 64, 8)});
  std::vector<PreparedTransfer> lists;
  std::vector<Transfer> puts;
  for (std::uint32_t i = 0; i < 20; ++i) {
    lists.push_back(
        value(ends.a->prepare_put(parts, {.level = CompletionLevel::visible, .immediate = i})));
    puts.push_back(value(lists.back().post()));
  }
  ends.drive([&] { return puts[7].done(); });
  EXPECT_FALSE(puts[8].done());
  for (std::uint32_t i = 0; i < 20; ++i) {
    Transfer immediate = value(ends.b->receive_immediate());
    finish(ends, immediate);
    EXPECT_EQ(immediate.value(), i);
  }
  for (Transfer& put : puts) finish(ends, put);
}

TEST(PreparedTransfer, MayGoWhileItIsUnderWayAndOutliveItsEndpoint) {
  Ends ends;
  Memory source(ends.context, MemoryType::host, kMessageBytes);
  Memory target(ends.context, MemoryType::host, kMessageBytes);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = remote_of(*ends.a, key);
  const std::vector<TransferPart> parts{{source.slice(0, 1000), remote.slice(5, 1000)},
                                        {source.slice(0, 0), remote.slice(0, 0)}};
  std::optional<PreparedTransfer> goes = value(ends.a->prepare_put(parts));
  Transfer run = value(goes->post());
  goes.reset();
  finish(ends, run);
  PreparedTransfer stays = value(ends.a->prepare_put(parts));
  PreparedTransfer empty = value(ends.a->prepare_put({}));
  Transfer nothing = value(empty.post());
  finish(ends, nothing);
  nothing.reset();
  run.reset();
  ends.a.reset();
  ends.drive([&] { return ends.b->phase() == EndpointPhase::closed; });
  EXPECT_EQ(stays.post().error().code, Errc::peer_failed);
}

}  // namespace
}  // namespace hbmwire::test
