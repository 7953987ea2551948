// SPDX-License-Identifier: MIT
#include "hbmwire/blocks.hpp"

#include <numeric>
#include <random>

#include "contract.hpp"

// Endpoint::put_blocks() and get_blocks() over every way (docs/endpoint.md, "Many blocks").
namespace hbmwire::test {
namespace {

using Ask = Peer::Ask;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kAreaBlocks = 64;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kMostPairs = 100'000;
#else
constexpr std::uint32_t kMostPairs = 1'000'000;
#endif

class BlockContract : public Contract {
 protected:
  void TearDown() override {
    here_.reset();  // before the regions, which the table needs
    Contract::TearDown();
  }

  /// Cuts two areas on each side. They are in a different order at the other end, and none is at
  /// the beginning of the memory.
  void cut() {
    const std::uint64_t area = kAreaBlocks * kBlock;
    const std::vector<Slice> here_areas{here(100, area), here(kHalf, area)};
    const std::vector<RemoteSlice> there_areas{there(kHalf + 64, area), there(300, area)};
    here_.emplace(value(BlockTable::create(here_areas, kBlock)));
    there_.emplace(value(RemoteBlockTable::create(there_areas, kBlock)));
  }

  /// The offset of a block in this end's memory, as cut() made it.
  static std::uint64_t here_at(std::uint64_t block) {
    return (block < kAreaBlocks ? 100 : kHalf) + block % kAreaBlocks * kBlock;
  }

  /// The offset of a block in the peer's memory, as cut() made it.
  static std::uint64_t there_at(std::uint64_t block) {
    return (block < kAreaBlocks ? kHalf + 64 : 300) + block % kAreaBlocks * kBlock;
  }

  using Numbers = std::vector<std::uint32_t>;

  /// Makes both tables, and pairs all blocks in random order. The first 40 pairs stay in order, so
  /// adjacent blocks go together.
  void shuffle() {
    cut();
    from_.resize(2 * kAreaBlocks);
    std::iota(from_.begin(), from_.end(), 0U);
    to_ = from_;
    std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed gives the same pairs
    std::shuffle(to_.begin() + 40, to_.end(), random);
    std::shuffle(from_.begin() + 90, from_.end(), random);
  }

  /// The contents of the peer's memory after blocks of pattern `mine` have arrived.
  static std::vector<std::byte> with_blocks(std::vector<std::byte> theirs, const Numbers& from,
                                            const Numbers& to, unsigned mine) {
    for (std::size_t i = 0; i < from.size(); ++i)
      overlay(theirs, there_at(to[i]), here_at(from[i]), mine, kBlock);
    return theirs;
  }

  Numbers from_;
  Numbers to_;
  std::optional<BlockTable> here_;
  std::optional<RemoteBlockTable> there_;
};

TEST_P(BlockContract, EachBlockArrivesAtItsPlaceAndNowhereElse) {
  shuffle();
  fill(1);
  fill_peer(2);
  Transfer put = value(
      endpoint_->put_blocks(*here_, from_, *there_, to_, {.level = CompletionLevel::visible}));
  finish(put);
  EXPECT_EQ(put.bytes(), from_.size() * kBlock);
  EXPECT_TRUE(same_bytes(peers_contents(), with_blocks(pattern(kBytes, 2), from_, to_, 1)));

  // Half of the blocks come back, numbered by 64-bit integers.
  const std::vector<std::uint64_t> into(from_.begin(), from_.begin() + kAreaBlocks);
  const std::vector<std::uint64_t> source(to_.begin() + kAreaBlocks, to_.end());
  fill(3);
  fill_peer(4);
  Transfer get = value(endpoint_->get_blocks(*here_, into, *there_, source));
  finish(get);
  auto expected = pattern(kBytes, 3);
  for (std::size_t i = 0; i < into.size(); ++i)
    overlay(expected, here_at(into[i]), there_at(source[i]), 4, kBlock);
  EXPECT_TRUE(same_bytes(contents(), expected));
}

TEST_P(BlockContract, OneImmediateComesBehindAllBlocks) {
  shuffle();
  fill(5);
  fill_peer(6);
  Transfer transfer = value(endpoint_->put_blocks(*here_, from_, *there_, to_, {.immediate = 77}));
  const auto seen = peer_->ask(Ask::receive_immediate, 0, drive());
  finish(transfer);
  EXPECT_EQ(seen.value, 77U);
  EXPECT_TRUE(same_bytes(seen.bytes, with_blocks(pattern(kBytes, 6), from_, to_, 5)));
}

TEST_P(BlockContract, LaterTransfersArriveAfterTheBlocks) {
  begin({.send_depth = 4});
  shuffle();
  for (int round = 0; round < 3; ++round) {
    fill(7);
    Transfer first = value(endpoint_->put_blocks(*here_, from_, *there_, to_));
    Transfer second =
        put(here_at(3), there_at(to_[0]), kBlock, {.level = CompletionLevel::visible});
    finish(second);
    finish(first);
    auto expected = peers_contents();
    // The second transfer overwrites the first block.
    for (std::size_t i = 1; i < from_.size(); ++i)
      overlay(expected, there_at(to_[i]), here_at(from_[i]), 7, kBlock);
    overlay(expected, there_at(to_[0]), here_at(3), 7, kBlock);
    EXPECT_TRUE(same_bytes(peers_contents(), expected));
  }
}

TEST_P(BlockContract, FencesHoldBeforeAndBehindBlocks) {
  shuffle();
  fill(1);
  fill_peer(2);
  // A put with a fence, after the blocks of a get, sends the bytes that these brought.
  Transfer got = value(endpoint_->get_blocks(*here_, from_, *there_, to_));
  good(endpoint_->fence());
  Transfer sent = put(here_at(from_.back()), there_at(to_[0]), 8);
  good(endpoint_->fence());
  Transfer back = value(endpoint_->put_blocks(*here_, from_, *there_, from_));
  good(endpoint_->fence());
  Transfer last = value(endpoint_->get(here(0, 64), there(0, 64)));
  for (Transfer* const each : {&got, &sent, &back, &last}) finish(*each);
  auto mine = pattern(kBytes, 1);
  for (std::size_t i = 0; i < from_.size(); ++i)
    overlay(mine, here_at(from_[i]), there_at(to_[i]), 2, kBlock);
  auto theirs = pattern(kBytes, 2);
  std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(here_at(from_.back())), 8,
              theirs.begin() + static_cast<std::ptrdiff_t>(there_at(to_[0])));
  for (const std::uint32_t block : from_) {
    std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(here_at(block)), kBlock,
                theirs.begin() + static_cast<std::ptrdiff_t>(there_at(block)));
  }
  std::copy_n(theirs.begin(), 64, mine.begin());
  EXPECT_TRUE(same_bytes(contents(), mine));
  Transfer visible = put(0, 0, 64, {.level = CompletionLevel::visible});
  finish(visible);
  EXPECT_TRUE(same_bytes(peers_contents(), theirs));
}

TEST_P(BlockContract, AFenceIsNotLostWithAListOfNoBlocks) {
  cut();
  fill(1);
  fill_peer(2);
  const std::vector<std::uint32_t> none;
  Transfer got = value(endpoint_->get(here(0, kHalf), there(0, kHalf)));
  good(endpoint_->fence());
  Transfer nothing = value(endpoint_->put_blocks(*here_, none, *there_, none));
  Transfer sent = put(kHalf - 8, kHalf, 8);
  for (Transfer* const each : {&got, &nothing, &sent}) finish(*each);
  auto expected = pattern(kBytes, 2);
  overlay(expected, kHalf, kHalf - 8, 2, 8);
  Transfer visible = put(kHalf - 8, kHalf, 8, {.level = CompletionLevel::visible});
  finish(visible);
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(BlockContract, ACloseAtItsDeadlineReportsNoBlocksThatDidNotArrive) {
  shuffle();
  from_.resize(4);
  to_ = {9, 1, 100, 70};
  fill(1);
  fill_peer(2);
  peer_->ask(Ask::pause, 0, drive());
  Transfer some = value(endpoint_->put_blocks(*here_, from_, *there_, to_));
  static_cast<void>(endpoint_->close(within(50ms)));
  EXPECT_TRUE(some.done());
  const bool arrived = some.poll().value_or(false);
  peer_->ask(Ask::go_on, 0, drive());
  const auto expected = with_blocks(pattern(kBytes, 2), from_, to_, 1);
  if (arrived) {
    EXPECT_TRUE(same_bytes(peers_contents(), expected)) << "it was said to have arrived";
  }
}

TEST_P(BlockContract, NoBlockOneBlockOrTheSameBlockTwiceArrive) {
  cut();
  fill(8);
  fill_peer(9);
  const std::vector<std::uint32_t> none;
  Transfer nothing = value(endpoint_->put_blocks(*here_, none, *there_, none));
  finish(nothing);
  EXPECT_EQ(nothing.bytes(), 0U);
  const std::vector<std::uint32_t> from{127, 127, 0};
  const std::vector<std::uint32_t> to{0, 127, 64};
  Transfer some = value(endpoint_->put_blocks(*here_, from, *there_, to));
  finish(some);
  Transfer flush = value(endpoint_->flush());
  finish(flush);
  const auto expected = with_blocks(pattern(kBytes, 9), from, to, 8);
  Transfer visible = put(here_at(0), there_at(64), 8, {.level = CompletionLevel::visible});
  finish(visible);
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(BlockContract, AMillionPairsGoAsOneTransfer) {
  constexpr std::uint64_t kSmall = 4;
  // If each pair is a separate transfer, a million pairs take a minute or longer, above all with a
  // sanitizer.
  const bool by_lane = way().lists && way().path != Path::ipc && way().path != Path::copy &&
                       (way().shared || way().path != Path::shared_memory);
  const std::uint32_t many = by_lane ? kMostPairs : 300;
  here_.emplace(value(BlockTable::create(std::array{here(0, many * kSmall)}, kSmall)));
  there_.emplace(value(RemoteBlockTable::create(std::array{there(0, many * kSmall)}, kSmall)));
  std::vector<std::uint32_t> from(many);
  std::vector<std::uint32_t> to(many);
  // Strides through the whole memory.
  for (std::uint32_t i = 0; i < many; ++i) {
    from[i] = static_cast<std::uint32_t>(std::uint64_t{i} * 7 % many);
    to[i] = static_cast<std::uint32_t>((std::uint64_t{i} * 3 + 1) % many);
  }
  fill(1);
  fill_peer(2);
  Transfer transfer =
      value(endpoint_->put_blocks(*here_, from, *there_, to, {.level = CompletionLevel::visible}));
  finish(transfer);
  EXPECT_EQ(transfer.bytes(), many * kSmall);
  const auto mine = pattern(kBytes, 1);
  auto expected = pattern(kBytes, 2);
  for (std::uint32_t i = 0; i < many; ++i)
    std::copy_n(mine.begin() + from[i] * kSmall, kSmall, expected.begin() + to[i] * kSmall);
  EXPECT_TRUE(same_bytes(peers_contents(), expected));
}

TEST_P(BlockContract, WrongNumbersAreRefusedAndChangeNothing) {
  cut();
  fill_peer(2);
  const std::vector<std::uint32_t> two{0, 1};
  const std::vector<std::uint32_t> one{0};
  const std::vector<std::uint32_t> beyond{0, 2 * kAreaBlocks};
  const std::vector<std::uint64_t> far{0, ~std::uint64_t{0}};
  // `busy` stands for success.
  const auto code = [](const Result<Transfer>& result) {
    return result ? Errc::busy : result.error().code;
  };
  EXPECT_EQ(code(endpoint_->put_blocks(*here_, two, *there_, one)), Errc::invalid_argument);
  EXPECT_EQ(code(endpoint_->put_blocks(*here_, beyond, *there_, two)), Errc::invalid_argument);
  EXPECT_EQ(code(endpoint_->put_blocks(*here_, two, *there_, beyond)), Errc::invalid_argument);
  EXPECT_EQ(code(endpoint_->get_blocks(*here_, far, *there_, two)), Errc::invalid_argument);
  const RemoteBlockTable other =
      value(RemoteBlockTable::create(std::vector{there(0, 2 * kBlock)}, 2 * kBlock));
  EXPECT_EQ(code(endpoint_->put_blocks(*here_, one, other, one)), Errc::invalid_argument);
  const std::vector<Slice> outside{{&*region_, kBytes, kBlock}};
  EXPECT_FALSE(BlockTable::create(outside, kBlock));
  EXPECT_FALSE(BlockTable::create(std::vector{here(0, kBlock + 1)}, kBlock));
  EXPECT_FALSE(BlockTable::create(std::vector{here(0, kBlock)}, 0));
  EXPECT_FALSE(BlockTable::create({}, kBlock));
  EXPECT_TRUE(same_bytes(peers_contents(), pattern(kBytes, 2)));
  expect_works_again();
}

TEST_P(BlockContract, CancelledBlocksChangeNothingAfterTheReport) {
  shuffle();
  fill(1);
  fill_peer(2);
  Transfer get = value(endpoint_->get_blocks(*here_, from_, *there_, to_));
  for (const auto end = Deadline::after(3ms); !end.passed();) worker_->progress();
  static_cast<void>(get.cancel());
  EXPECT_TRUE(get.done());
  fill(3);
  for (const auto end = Deadline::after(30ms); !end.passed();) worker_->progress();
  Transfer flushed = value(worker_->flush(here(0, kBytes)));
  finish(flushed);
  EXPECT_TRUE(same_bytes(contents(), pattern(kBytes, 3)));
  expect_works_again();
}

INSTANTIATE_TEST_SUITE_P(Ways, BlockContract, ::testing::ValuesIn(ways().begin(), ways().end()),
                         name_of);

}  // namespace
}  // namespace hbmwire::test
