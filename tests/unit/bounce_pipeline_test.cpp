// SPDX-License-Identifier: MIT
#include "memory/bounce_pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <set>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "tests/support/lent_memory.hpp"

namespace hbmwire::memory {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kSlots = 3;
constexpr std::uint64_t kPiece = 100;

/// A device of 10000 bytes. Its pieces move when the test says so.
class SlowDevice final : public BouncePipeline::Mover {
 public:
  std::byte* memory(unsigned slot) noexcept override { return pinned.at(slot).data(); }

  Result<void> start(const BouncePipeline::Piece& piece) override {
    EXPECT_FALSE(under_way.contains(piece.slot)) << "a slot is used twice at a time";
    if (refuse_starts)
      return tl::make_unexpected(make_error(Errc::system, Stage::copy, "refused", "device"));
    pieces.at(piece.slot) = piece;
    under_way.insert(piece.slot);
    most_under_way = std::max(most_under_way, under_way.size());
    return {};
  }

  Result<bool> poll(unsigned slot) override {
    if (fail_polls)
      return tl::make_unexpected(make_error(Errc::system, Stage::copy, "failed", "device"));
    if (!moving) return false;
    move(slot);
    return true;
  }

  bool settle(unsigned slot) noexcept override {
    if (!settles) return false;
    under_way.erase(slot);
    return true;
  }

  void move(unsigned slot) {
    const BouncePipeline::Piece& piece = pieces.at(slot);
    std::byte* const at = contents.data() + piece.address;
    if (piece.direction == BouncePipeline::Direction::in) {
      std::memcpy(at, pinned.at(slot).data(), piece.length_bytes);
    } else {
      std::memcpy(pinned.at(slot).data(), at, piece.length_bytes);
    }
    under_way.erase(slot);
  }

  std::vector<std::byte> contents = std::vector<std::byte>(10000);
  std::array<std::array<std::byte, kPiece>, kSlots> pinned{};
  std::array<BouncePipeline::Piece, kSlots> pieces{};
  std::set<unsigned> under_way;
  std::size_t most_under_way = 0;
  bool moving = false;  // a poll moves its piece
  bool refuse_starts = false;
  bool fail_polls = false;
  bool settles = true;  // a failed piece no longer uses its slot
};

class BouncePipelineTest : public testing::Test {
 protected:
  static std::vector<std::byte> filled(std::size_t size, int value) {
    return std::vector<std::byte>(size, static_cast<std::byte>(value));
  }

  PendingCopy in(std::uint64_t address, const std::vector<std::byte>& from) {
    auto copy = pipeline_.start_in(address, from, nullptr);
    EXPECT_TRUE(copy) << describe(copy.error());
    return std::move(*copy);
  }

  static void finish(PendingCopy& copy) {
    const auto done = copy.wait({Deadline::after(5s), -1});
    EXPECT_TRUE(done) << describe(done.error());
  }

  SlowDevice device_;
  BouncePipeline pipeline_{device_, kSlots, kPiece};
};

TEST_F(BouncePipelineTest, KeepsAllSlotsBusyAndReturnsAtOnce) {
  const auto bytes = filled(1050, 1);
  auto copy = in(7, bytes);
  EXPECT_EQ(device_.under_way.size(), kSlots);
  EXPECT_FALSE(*copy.poll());
  device_.moving = true;
  finish(copy);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), device_.contents.begin() + 7));
  EXPECT_EQ(device_.contents.at(6), std::byte{0});
  EXPECT_EQ(device_.contents.at(7 + 1050), std::byte{0});
}

TEST_F(BouncePipelineTest, DoesCopiesInTheOrderInWhichTheyWereStarted) {
  const auto first = filled(500, 1);
  const auto second = filled(500, 2);
  std::vector<std::byte> read(500);
  auto write_first = in(0, first);
  auto write_second = in(0, second);
  auto read_back = pipeline_.start_out(0, read, nullptr);
  device_.moving = true;
  finish(*read_back);  // also finishes the copy started before
  EXPECT_EQ(read, second);
  EXPECT_TRUE(*write_first.poll());
  EXPECT_TRUE(*write_second.poll());
}

TEST_F(BouncePipelineTest, ADestroyedCopyNoLongerTouchesTheHost) {
  auto read = std::make_unique<std::vector<std::byte>>(filled(500, 9));
  device_.contents = filled(10000, 3);
  {
    const auto copy = pipeline_.start_out(0, *read, nullptr);
    ASSERT_TRUE(copy);
  }
  device_.moving = true;
  const auto bytes = filled(100, 4);
  auto next = in(0, bytes);
  finish(next);
  EXPECT_EQ(*read, filled(500, 9));
  read.reset();
  EXPECT_TRUE(pipeline_.drain(Deadline::after(5s)));
  EXPECT_EQ(device_.contents.at(0), std::byte{4});
}

TEST_F(BouncePipelineTest, WaitsForPiecesOfADestroyedCopyBeforeTheNext) {
  const auto old_bytes = filled(300, 1);
  const auto new_bytes = filled(300, 2);
  { const auto dropped = in(0, old_bytes); }
  auto copy = in(0, new_bytes);
  EXPECT_FALSE(*copy.poll()) << "an old piece could arrive after a new one";
  device_.moving = true;
  finish(copy);
  EXPECT_EQ(device_.contents.at(0), std::byte{2});
  EXPECT_EQ(device_.contents.at(299), std::byte{2});
}

TEST_F(BouncePipelineTest, AStartThatFailsIsTheErrorAndTheNextCopyIsFine) {
  device_.refuse_starts = true;
  const auto bytes = filled(300, 1);
  const auto failed = pipeline_.start_in(0, bytes, nullptr);
  ASSERT_FALSE(failed);
  EXPECT_STREQ(failed.error().call, "refused");
  device_.refuse_starts = false;
  device_.moving = true;
  auto copy = in(0, bytes);
  finish(copy);
}

TEST_F(BouncePipelineTest, AFailedPieceKeepsItsSlotUntilTheDeviceIsDoneWithIt) {
  const auto bytes = filled(300, 1);
  auto copy = in(0, bytes);
  device_.fail_polls = true;
  device_.settles = false;
  const auto failed = copy.poll();
  ASSERT_FALSE(failed);
  EXPECT_STREQ(failed.error().call, "failed");
  device_.fail_polls = false;
  device_.moving = true;
  auto next = in(0, bytes);
  EXPECT_FALSE(*next.poll());
  EXPECT_FALSE(pipeline_.drain(Deadline::after(1ms)));
  device_.settles = true;
  finish(next);
  EXPECT_TRUE(pipeline_.drain(Deadline::after(5s)));
}

TEST_F(BouncePipelineTest, HostMemoryThatIsGoneIsAnErrorOfThatCopyAlone) {
  constexpr std::uint64_t kPage = 4096;
  for (const auto how : {test::LentMemory::How::unmapped, test::LentMemory::How::truncated}) {
    const test::LentMemory lent(2 * kPage);
    lent.take_away(how, kPage);
    const auto refused = pipeline_.start_in(0, lent.bytes().subspan(kPage, 10), nullptr);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().hint, Hint::memory_gone) << describe(refused.error());
    device_.moving = true;
    // Its first pieces have arrived, the last ones have not.
    auto copy = pipeline_.start_out(0, lent.bytes().subspan(kPage - 250, 500), nullptr);
    const auto over = copy ? copy->wait({Deadline::after(5s), -1})
                           : Result<void>(tl::make_unexpected(copy.error()));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error().hint, Hint::memory_gone) << describe(over.error());
    PendingCopy next = in(700, filled(100, 6));
    finish(next);
    EXPECT_EQ(device_.contents[700], std::byte{6});
    device_.moving = false;
  }
}

TEST_F(BouncePipelineTest, HoldsItsOwnerAsLongAsTheCopyRuns) {
  const auto kept = std::make_shared<int>(1);
  const auto bytes = filled(300, 1);
  {
    auto copy = pipeline_.start_in(0, bytes, kept);
    EXPECT_EQ(kept.use_count(), 2);
    device_.moving = true;
    finish(*copy);
    EXPECT_EQ(kept.use_count(), 1);
  }
  const auto empty = pipeline_.start_in(0, {}, kept);
  ASSERT_TRUE(empty);
  EXPECT_EQ(kept.use_count(), 1);
}

}  // namespace
}  // namespace hbmwire::memory
