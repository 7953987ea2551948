// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/bytes.hpp"
#include "tests/support/lent_memory.hpp"
#include "transport/shared/ring.hpp"

/// The ring between two processes: whole frames arrive in order, whatever its two ends do to each
/// other.
namespace hbmwire::transport {
namespace {

using namespace std::chrono_literals;
using test::LentMemory;
using test::pattern;
using Kind = RingFrameKind;

constexpr std::uint32_t kCells = SharedRingFile::kCells;
constexpr std::uint32_t kCell = SharedRingFile::kCellBytes;
constexpr std::uint32_t kMost = RingWriter::kMostBytes;
constexpr std::uint32_t kHead = sizeof(RingFrameHead);

constexpr std::uint32_t cells_of(std::uint32_t bytes) {
  return (kHead + bytes + kCell - 1) / kCell;
}

constexpr std::uint64_t word_of(std::uint64_t kind, std::uint64_t length) {
  return kind << 56U | length;
}

constexpr std::uint64_t kSkip = word_of(1, 0);

/// Zeroed memory between two pages that must not be accessed.
class Fenced {
 public:
  Fenced() {
    constexpr std::size_t kPage = 4096;
    static_assert(sizeof(SharedRingFile) % kPage == 0);
    all_ = ::mmap(nullptr, sizeof(SharedRingFile) + 2 * kPage, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all_, MAP_FAILED);
    ring_ = static_cast<std::byte*>(all_) + kPage;
    EXPECT_EQ(::mprotect(ring_, sizeof(SharedRingFile), PROT_READ | PROT_WRITE), 0);
  }

  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  ~Fenced() { ::munmap(all_, sizeof(SharedRingFile) + 2 * 4096); }

  [[nodiscard]] SharedRingFile& operator*() const {
    return *static_cast<SharedRingFile*>(static_cast<void*>(ring_));
  }

  [[nodiscard]] SharedRingFile* operator->() const { return &**this; }

  [[nodiscard]] std::vector<std::byte> contents() const {
    return {ring_, ring_ + sizeof(SharedRingFile)};
  }

  void set(std::size_t offset, std::byte to) const { ring_[offset] = to; }

  [[nodiscard]] std::size_t offset_of(std::uint32_t cell) const {
    const void* const at = &(*this)->cells[cell];
    return static_cast<std::size_t>(static_cast<const std::byte*>(at) - ring_);
  }

  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const {
    return bytes.data() >= ring_ && bytes.data() + bytes.size() <= ring_ + sizeof(SharedRingFile);
  }

 private:
  void* all_;
  std::byte* ring_;
};

/// Both ends of a ring.
class SharedRing : public ::testing::Test {
 protected:
  bool write(std::uint32_t length, unsigned seed, Kind kind = Kind::message) {
    if (!writer().has_room(length)) return false;
    const auto bytes = pattern(length, seed);
    const std::size_t head = std::min<std::size_t>(length, 32);
    EXPECT_EQ(writer().write({.kind = kind,
                              .value = seed,
                              .written = ~seed,
                              .head = std::span(bytes).first(head),
                              .body = std::span(bytes).subspan(head)}),
              0);
    return true;
  }

  /// Expects this frame next. Takes it, and tells the writer.
  void expect(std::uint32_t length, unsigned seed, Kind kind = Kind::message) {
    const auto frame = reader().peek();
    ASSERT_TRUE(frame) << "of " << length << " bytes, seed " << seed;
    EXPECT_EQ(frame->kind, kind);
    EXPECT_EQ(frame->value, seed);
    EXPECT_EQ(frame->written, ~seed);
    ASSERT_EQ(frame->bytes.size(), length);
    EXPECT_TRUE(ring.holds(frame->bytes));
    EXPECT_TRUE(test::same_bytes(frame->bytes, pattern(length, seed))) << length;
    reader().take();
    reader().tell_taken();
  }

  /// Makes the next frame begin in this cell.
  void go_to(std::uint32_t cell) {
    while (next_ != cell) {
      const std::uint32_t cells = std::min(cell > next_ ? cell - next_ : kCells - next_, 100U);
      const std::uint32_t length = cells * kCell - kHead;
      ASSERT_TRUE(write(length, cells));
      expect(length, cells);
      next_ = (next_ + cells) % kCells;
    }
  }

  /// Zeroes the ring, and makes two new ends.
  void begin_anew() {
    std::memset(static_cast<void*>(&*ring), 0, sizeof(SharedRingFile));
    writer_.emplace(*ring);
    reader_.emplace(*ring);
    next_ = 0;
  }

  [[nodiscard]] RingWriter& writer() { return *writer_; }

  [[nodiscard]] RingReader& reader() { return *reader_; }

  Fenced ring;

 private:
  std::optional<RingWriter> writer_{std::in_place, *ring};
  std::optional<RingReader> reader_{std::in_place, *ring};
  std::uint32_t next_ = 0;
};

TEST_F(SharedRing, IsEmptyAtFirst) {
  EXPECT_FALSE(reader().peek());
  EXPECT_FALSE(reader().has_frame());
  EXPECT_TRUE(writer().is_empty());
  EXPECT_FALSE(writer().is_broken());
  EXPECT_FALSE(reader().is_broken());
  reader().take();  // nothing to take
  reader().tell_taken();
  EXPECT_TRUE(writer().is_empty());
}

TEST_F(SharedRing, BringsFramesOfEveryLengthAroundTheEndsOfItsCells) {
  for (std::uint32_t cells = 1; cells <= cells_of(kMost); ++cells) {
    const std::uint32_t fits = cells * kCell - kHead;
    for (std::uint32_t length = fits - std::min(fits, 9U); length <= fits + 9; ++length) {
      if (length > kMost) break;
      ASSERT_TRUE(write(length, length));
      expect(length, length);
    }
  }
  for (const std::uint32_t length : {kMost - 1, kMost}) {
    ASSERT_TRUE(write(length, 5, Kind::immediate));
    expect(length, 5, Kind::immediate);
  }
  EXPECT_FALSE(reader().peek());
  EXPECT_TRUE(writer().is_empty());
}

TEST_F(SharedRing, TheLongestFitsInAnEmptyRingWhereverItBegins) {
  for (std::uint32_t cell = 0; cell < kCells; ++cell) {
    begin_anew();
    go_to(cell);
    ASSERT_TRUE(writer().is_empty());
    ASSERT_TRUE(write(kMost, 1)) << cell;
    expect(kMost, 1);
    EXPECT_TRUE(writer().is_empty());
  }
}

TEST_F(SharedRing, WrapsFramesThatDoNotFitAtItsEnd) {
  for (std::uint32_t cells = 1; cells < 20; ++cells) {
    for (std::uint32_t left = 1; left <= 20; ++left) {
      begin_anew();
      go_to(kCells - left);
      const std::uint32_t length = cells * kCell - kHead;
      ASSERT_TRUE(write(length, cells));
      ASSERT_TRUE(write(3, 9));
      // The frame begins in the first cells if too few cells were left at the end.
      const std::uint64_t first = ring->cells[0].word.load();
      EXPECT_EQ(first != 0, cells >= left) << cells << " of " << left;
      if (cells > left) {
        EXPECT_EQ(first, word_of(2, length));
        EXPECT_EQ(ring->cells[kCells - left].word.load(), kSkip);
      }
      expect(length, cells);
      expect(3, 9);
      EXPECT_TRUE(writer().is_empty());
      EXPECT_FALSE(reader().peek());
    }
  }
}

TEST_F(SharedRing, LeavesNoWordBehindThatCouldBeTakenForAFrame) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto length = static_cast<std::uint32_t>(random() % (i % 10 == 0 ? kMost + 1 : 700));
    ASSERT_TRUE(write(length, static_cast<unsigned>(i)));
    expect(length, static_cast<unsigned>(i));
    if (i % 97 != 0) continue;
    EXPECT_TRUE(std::ranges::all_of(ring->cells, [](const auto& cell) { return cell.word == 0; }));
  }
}

TEST_F(SharedRing, HasRoomAgainWhenItsReaderReportsProgress) {
  for (const std::uint32_t length : {0U, 48U, 49U, 200U, 5000U, kMost}) {
    begin_anew();
    go_to(17);
    unsigned written = 0;
    while (write(length, written)) ++written;
    // All cells except those that stay free at the end.
    EXPECT_GE((written + 1) * cells_of(length) + cells_of(length), kCells);
    EXPECT_LE(written * cells_of(length), kCells);
    EXPECT_FALSE(writer().is_broken());
    ASSERT_TRUE(reader().peek());
    reader().take();
    EXPECT_FALSE(writer().has_room(length)) << "it was not told";
    reader().tell_taken();
    // Frame 0 was taken above, to make room. The others are still in the ring.
    for (unsigned i = 1; i < written; ++i) expect(length, i);
    EXPECT_FALSE(reader().peek());
    EXPECT_TRUE(writer().has_room(kMost));
    ASSERT_TRUE(write(length, 1));
    expect(length, 1);
  }
}

TEST_F(SharedRing, FullFramesOfOneCellLeaveNoCellFree) {
  unsigned written = 0;
  while (write(kCell - kHead, written)) ++written;
  EXPECT_EQ(written, kCells);
  for (unsigned i = 0; i < written; ++i) {
    expect(kCell - kHead, i);
    EXPECT_TRUE(writer().has_room(kCell - kHead));
  }
}

TEST_F(SharedRing, IsEmptyWhenItsReaderHasReportedAllFrames) {
  ASSERT_TRUE(write(10, 1));
  ASSERT_TRUE(write(10, 2));
  EXPECT_FALSE(writer().is_empty());
  expect(10, 1);
  EXPECT_FALSE(writer().is_empty());
  ASSERT_TRUE(reader().peek());
  reader().take();
  EXPECT_FALSE(writer().is_empty());
  reader().tell_taken();
  EXPECT_TRUE(writer().is_empty());
}

TEST_F(SharedRing, FramesOfRandomLengthsComeInOrder) {
  std::mt19937 random(7);
  std::deque<std::pair<std::uint32_t, unsigned>> there;
  for (unsigned i = 0; i < 50'000; ++i) {
    const std::uint32_t most = random() % 50 == 0 ? kMost : 500;
    const auto length = static_cast<std::uint32_t>(random() % (most + 1));
    while (!write(length, i)) {
      ASSERT_FALSE(there.empty()) << "an empty ring has room for all";
      expect(there.front().first, there.front().second);
      there.pop_front();
    }
    there.emplace_back(length, i);
    while (!there.empty() && random() % 3 == 0) {
      expect(there.front().first, there.front().second);
      there.pop_front();
    }
  }
}

// --- a body whose memory has disappeared

class Gone : public SharedRing, public ::testing::WithParamInterface<LentMemory::How> {
 protected:
  int write_gone(std::uint32_t length, std::size_t gone_from = 0) {
    const LentMemory lent(4 * 4096);
    std::ranges::fill(lent.bytes(), std::byte{0xee});
    lent.take_away(GetParam(), gone_from);
    const auto head = pattern(32, 1);
    EXPECT_TRUE(writer().has_room(32 + length));
    return writer().write({.head = head, .body = lent.bytes().first(length), .guarded = true});
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, Gone,
                         ::testing::Values(LentMemory::How::unmapped, LentMemory::How::truncated),
                         [](const auto& how) {
                           return how.param == LentMemory::How::unmapped ? "unmapped" : "truncated";
                         });

TEST_P(Gone, AMissingBodyIsAnErrorAndNoFrame) {
  for (const std::uint32_t cell : {0U, 1U, kCells - 200, kCells - 3, kCells - 1}) {
    for (const std::uint32_t length : {1U, 40U, 5000U, kMost - 32}) {
      for (const std::size_t from : {0U, 4096U}) {
        if (from >= length) continue;
        begin_anew();
        go_to(cell);
        EXPECT_EQ(write_gone(length, from), EFAULT);
        EXPECT_FALSE(reader().peek());
        EXPECT_FALSE(reader().is_broken());
        // Later frames arrive.
        for (unsigned i = 0; i < 400; ++i) {
          ASSERT_TRUE(write(40 * (i % 9), i));
          expect(40 * (i % 9), i);
        }
        EXPECT_TRUE(writer().is_empty());
      }
    }
  }
}

/// A writer that waits for an empty ring waits only for frames, because its reader reports only
/// those.
TEST_P(Gone, AMissingBodyLeavesAnEmptyRingEmpty) {
  for (const std::uint32_t cell : {0U, kCells - 200, kCells - 20, kCells - 1}) {
    begin_anew();
    go_to(cell);
    ASSERT_TRUE(writer().is_empty());
    EXPECT_EQ(write_gone(6000), EFAULT);
    EXPECT_FALSE(reader().peek());
    EXPECT_TRUE(writer().is_empty()) << "in cell " << cell;
  }
}

TEST_P(Gone, AMissingBodyIsFoundAfterReadableBytes) {
  go_to(kCells - 5);
  ASSERT_TRUE(write(10, 3));
  EXPECT_EQ(write_gone(5000), EFAULT);
  ASSERT_TRUE(write(6000, 4));
  EXPECT_EQ(write_gone(100), EFAULT);
  expect(10, 3);
  expect(6000, 4);
  EXPECT_FALSE(reader().peek());
  EXPECT_TRUE(writer().is_empty());
}

TEST_F(SharedRing, AGuardedBodyThatIsThereArrives) {
  const auto bytes = pattern(9000, 4);
  ASSERT_TRUE(writer().has_room(9000));
  EXPECT_EQ(writer().write({.value = 4, .written = ~4U, .body = bytes, .guarded = true}), 0);
  expect(9000, 4);
  ASSERT_TRUE(writer().has_room(0));
  EXPECT_EQ(writer().write({.value = 5, .written = ~5U, .guarded = true}), 0);
  expect(0, 5);
}

// --- a writer that is killed

/// The compiler chooses the order in which the bytes of a frame are written. Whichever of them are
/// written, there is no frame before its word.
TEST_F(SharedRing, HasNoFrameUntilItsWordIsWritten) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    begin_anew();
    const auto begins = static_cast<std::uint32_t>(random() % kCells);
    go_to(begins);
    const auto length = static_cast<std::uint32_t>(random() % (kMost + 1));
    const std::vector<std::byte> before = ring.contents();
    ASSERT_TRUE(write(length, 2));
    const std::vector<std::byte> after = ring.contents();
    const bool skips = cells_of(length) > kCells - begins;
    const std::size_t word = ring.offset_of(skips ? 0 : begins);
    const std::size_t skip = ring.offset_of(begins);
    const auto is_in = [](std::size_t i, std::size_t of) { return i >= of && i < of + 8; };
    // Killed at a random point: some bytes are written, and perhaps a skip.
    const auto share = static_cast<unsigned>(random() % 5);
    for (std::size_t i = 0; i < after.size(); ++i) {
      const bool is_word = is_in(i, word) || (skips && is_in(i, skip));
      ring.set(i, !is_word && random() % 4 < share ? after[i] : before[i]);
    }
    if (skips && random() % 2 == 0) ring->cells[begins].word = kSkip;
    ASSERT_FALSE(reader().peek()) << "in cell " << begins << ", of " << length;
    ASSERT_FALSE(reader().is_broken());
    for (std::size_t i = 0; i < after.size(); ++i) ring.set(i, after[i]);
    expect(length, 2);
  }
}

/// A ring in memory shared with children by fork(2).
class SharedMapping {
 public:
  SharedMapping()
      : ring_(static_cast<SharedRingFile*>(::mmap(nullptr, sizeof(SharedRingFile),
                                                  PROT_READ | PROT_WRITE,
                                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  ~SharedMapping() { ::munmap(ring_, sizeof *ring_); }

  [[nodiscard]] SharedRingFile& operator*() const { return *ring_; }

 private:
  SharedRingFile* ring_;
};

/// The length of the `number`th frame of a stream, from which its bytes follow.
std::uint32_t length_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(8 + number * 7919 % (number % 64 == 0 ? 12000 : 400));
}

void make_frame(std::uint64_t number, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), &number, sizeof number);
  for (std::size_t i = sizeof number; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(number * 31 + i);
}

bool is_frame(std::uint64_t number, std::span<const std::byte> bytes) {
  std::uint64_t told = 0;
  if (bytes.size() != length_of(number)) return false;
  std::memcpy(&told, bytes.data(), sizeof told);
  if (told != number) return false;
  // Checks some of its bytes, always including the last one.
  for (std::size_t i = bytes.size() - 1; i >= sizeof told; i -= std::min<std::size_t>(i, 61)) {
    if (bytes[i] != static_cast<std::byte>(number * 31 + i)) return false;
    if (i == 0) break;
  }
  return true;
}

/// Writes `most` frames, or forever.
void pump(SharedRingFile& ring, std::uint64_t most) {
  RingWriter writer(ring);
  std::vector<std::byte> bytes(kMost);
  for (std::uint64_t number = 0; number < most; ++number) {
    const std::span<std::byte> frame(bytes.data(), length_of(number));
    make_frame(number, frame);
    while (!writer.has_room(length_of(number))) std::this_thread::yield();
    if (writer.write({.value = static_cast<std::uint32_t>(number), .body = frame}) != 0)
      std::abort();
  }
}

/// Takes all available frames; returns the number of good ones before the first bad one.
std::uint64_t take_frames(RingReader& reader, std::uint64_t from, std::uint64_t most) {
  std::uint64_t next = from;
  while (next < most) {
    const auto frame = reader.peek();
    if (!frame || !is_frame(next, frame->bytes) || frame->value != static_cast<std::uint32_t>(next))
      break;
    reader.take();
    if (++next % 8 == 0) reader.tell_taken();
  }
  reader.tell_taken();
  return next;
}

TEST(RingOfTwoProcesses, AWriterThatIsKilledLeavesWholeFrames) {
  std::mt19937 random(11);
  std::uint64_t killed_in_the_middle = 0;
  for (int round = 0; round < 100; ++round) {
    const SharedMapping ring;
    const pid_t child = ::fork();
    if (child == 0) {
      pump(*ring, ~std::uint64_t{0});
      ::_exit(0);
    }
    RingReader reader(*ring);
    std::uint64_t taken = 0;
    const auto least = static_cast<std::uint64_t>(random() % 3000);
    while (taken < least && !reader.is_broken()) {
      const std::uint64_t before = taken;
      taken = take_frames(reader, taken, least);
      if (taken == before) std::this_thread::yield();
      ASSERT_FALSE(taken == before && reader.peek() && !is_frame(taken, reader.peek()->bytes));
    }
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    taken = take_frames(reader, taken, ~std::uint64_t{0});
    EXPECT_FALSE(reader.peek()) << "half a frame";
    EXPECT_FALSE(reader.is_broken());
    killed_in_the_middle += taken > least ? 1 : 0;
  }
  EXPECT_GT(killed_in_the_middle, 20U);
}

TEST(RingOfTwoProcesses, BringsAMillionFramesInOrder) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr std::uint64_t kFrames = 100'000;
#else
  constexpr std::uint64_t kFrames = 1'000'000;
#endif
  const SharedMapping ring;
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    pump(*ring, kFrames);
    ::_exit(0);
  }
  RingReader reader(*ring);
  std::uint64_t taken = 0;
  while (taken < kFrames) {
    const std::uint64_t before = taken;
    taken = take_frames(reader, taken, kFrames);
    if (taken != before) continue;
    const auto wrong = reader.peek();
    ASSERT_FALSE(wrong && !is_frame(taken, wrong->bytes)) << "frame " << taken;
    ASSERT_FALSE(reader.is_broken());
    std::this_thread::yield();
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// Both ends take turns to sleep: tests RingWriter::attention() against
/// RingReader::set_attention().
TEST(RingOfTwoThreads, NoFrameIsMissedByAReaderThatWaitsForItsBell) {
  constexpr std::uint64_t kRounds = 200'000;
  const auto ring = std::make_unique<SharedRingFile>();
  std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<bool> lost{false};
  std::thread writing([&] {
    RingWriter writer(*ring);
    for (std::uint64_t i = 0; i < kRounds && !lost; ++i) {
      while (!writer.has_room(8)) std::this_thread::yield();
      writer.write({.head = std::as_bytes(std::span(&i, 1))});
      if (writer.attention() != Attention::looks) {
        bell.store(1);
      }
      for (int looks = 1; i % 3 != 0 && acknowledged <= i && !lost; ++looks) {
        if (looks % 256 == 0) std::this_thread::yield();
      }
    }
  });
  RingReader reader(*ring);
  std::uint64_t taken = 0;
  while (taken < kRounds) {
    if (const auto frame = reader.peek()) {
      reader.take();
      reader.tell_taken();
      acknowledged.store(++taken);
      continue;
    }
    bell.store(0);
    reader.set_attention(Attention::bell);
    if (!reader.has_frame()) {
      const auto until = std::chrono::steady_clock::now() + 5s;
      for (int looks = 1; bell == 0 && std::chrono::steady_clock::now() < until; ++looks) {
        if (looks % 256 == 0) std::this_thread::yield();
      }
      if (bell == 0) {
        lost = true;
        ADD_FAILURE() << "no bell for frame " << taken;
        break;
      }
    }
    reader.set_attention(Attention::looks);
  }
  writing.join();
}

TEST_F(SharedRing, ReportsTheAttentionOfItsReader) {
  EXPECT_EQ(writer().attention(), Attention::bell);
  for (const auto how : {Attention::looks, Attention::sleeps, Attention::bell}) {
    reader().set_attention(how);
    EXPECT_EQ(writer().attention(), how);
  }
  // A reader that has set an undefined value may not poll, so its writer wakes it.
  for (const std::uint32_t other : {3U, 77U, ~0U}) {
    ring->attention = other;
    EXPECT_EQ(writer().attention(), Attention::sleeps);
  }
}

// --- a hostile writer

TEST_F(SharedRing, AnyUndefinedWordBreaksIt) {
  for (const std::uint32_t cell : {0U, 1U, kCells - 193, kCells - 2, kCells - 1}) {
    const std::uint64_t room = std::uint64_t{kCells - cell} * kCell - kHead;
    const std::uint64_t fits = std::min<std::uint64_t>(room, kMost);
    for (std::uint64_t kind = 0; kind < 256; ++kind) {
      for (const std::uint64_t length :
           {std::uint64_t{0}, std::uint64_t{1}, fits, fits + 1, std::uint64_t{kMost} + 1,
            std::uint64_t{1} << 32U, (std::uint64_t{1} << 32U) + 8,
            (std::uint64_t{1} << 56U) - 1}) {
        if (word_of(kind, length) == 0) continue;
        begin_anew();
        go_to(cell);
        ring->cells[cell].word = word_of(kind, length);
        const bool is_good = kind >= 2 && kind <= 4 && length <= fits;
        // A skip is good only in the last cells, where the longest frame has too little room.
        const bool is_skip = kind == 1 && length == 0 && kCells - cell < cells_of(kMost);
        const auto frame = reader().peek();
        ASSERT_EQ(frame.has_value(), is_good) << kind << ", " << length << " in cell " << cell;
        EXPECT_EQ(reader().is_broken(), !is_good && !is_skip)
            << kind << ", " << length << " in cell " << cell;
        if (is_good) {
          EXPECT_EQ(frame->bytes.size(), length);
          EXPECT_TRUE(ring.holds(frame->bytes));
        }
        reader().take();
        if (!reader().is_broken()) continue;
        EXPECT_FALSE(reader().peek());
        EXPECT_TRUE(reader().is_broken()) << "for good";
      }
    }
  }
}

/// A reader that went on would loop without ever finding a frame.
TEST_F(SharedRing, AWriterOfSkipsAloneBreaksIt) {
  go_to(kCells - 1);
  constexpr int kLooks = 1000;
  int looks = 0;
  while (!reader().is_broken() && looks < kLooks) {
    for (auto& cell : ring->cells) cell.word = kSkip;
    EXPECT_FALSE(reader().peek());
    ++looks;
  }
  EXPECT_LT(looks, 4);
}

/// The reader reads each word only once, and uses bytes within the ring, whatever the writer does
/// meanwhile.
TEST(RingOfAnEnemy, StaysWithinItsMemory) {
  SharedFile file;
  MappedRing made;
  ASSERT_TRUE(made.make(file));
  // Mapped at another address, like in another process.
  MappedRing opened;
  ASSERT_TRUE(opened.open(file.name));
  std::atomic<bool> done{false};
  std::thread enemy([&] {
    std::minstd_rand random(5);
    SharedRingFile& ring = *opened.get();
    for (std::uint64_t i = 0; !done; ++i) {
      const auto cell = static_cast<std::uint32_t>(random() % (i % 4 == 0 ? kCells : 4));
      switch (random() % 4) {
        case 0:
          ring.cells[cell].word = kSkip;
          break;
        case 1:
          ring.cells[cell].word = word_of(2 + random() % 2, random() % (2 * kMost));
          break;
        case 2:
          ring.cells[cell].word = word_of(random() % 256, random());
          break;
        default:
          ring.cells[cell].bytes[random() % 56] = static_cast<std::byte>(random());
          break;
      }
      ring.attention = static_cast<std::uint32_t>(random());
    }
  });
  const auto until = std::chrono::steady_clock::now() + 1s;
  const auto* const begin = reinterpret_cast<const std::byte*>(made.get());
  std::uint64_t frames = 0;
  std::uint64_t readers = 0;
  while (std::chrono::steady_clock::now() < until) {
    RingReader reader(*made.get());
    ++readers;
    for (int looks = 0; looks < 1000 && !reader.is_broken(); ++looks) {
      const auto frame = reader.peek();
      if (!frame) continue;
      ++frames;
      ASSERT_TRUE(frame->kind == Kind::message || frame->kind == Kind::immediate);
      ASSERT_LE(frame->bytes.size(), kMost);
      ASSERT_GE(frame->bytes.data(), begin);
      ASSERT_LE(frame->bytes.data() + frame->bytes.size(), begin + sizeof(SharedRingFile));
      reader.take();
      reader.tell_taken();
    }
  }
  done = true;
  enemy.join();
  EXPECT_GT(frames, 0U);
  EXPECT_GT(readers, 1U);
}

// --- a hostile reader

TEST_F(SharedRing, AReaderThatDecreasesItsCountBreaksIt) {
  go_to(10);
  ASSERT_TRUE(write(10, 1));
  EXPECT_FALSE(writer().is_empty());  // the writer has seen that 10 are taken
  ring->taken = 9;
  EXPECT_FALSE(writer().is_empty());
  EXPECT_TRUE(writer().is_broken());
  EXPECT_FALSE(writer().has_room(0));
}

TEST_F(SharedRing, AReaderThatTakesTooMuchBreaksIt) {
  for (const std::uint64_t beyond : {std::uint64_t{12}, std::uint64_t{kCells} + 10,
                                     std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    begin_anew();
    go_to(10);
    ASSERT_TRUE(write(10, 1));
    ring->taken = beyond;
    EXPECT_FALSE(writer().is_empty());
    EXPECT_TRUE(writer().is_broken()) << beyond;
    EXPECT_FALSE(writer().has_room(0)) << "and stays so";
    ring->taken = 11;
    EXPECT_FALSE(writer().has_room(0));
  }
}

/// The reader claims anything to be taken, and the cells change meanwhile.
TEST(RingOfAnEnemy, IsWrittenToWithinItsMemory) {
  std::mt19937_64 random(9);
  const auto bytes = pattern(kMost, 1);
  std::uint64_t written = 0;
  for (int round = 0; round < 2000; ++round) {
    const Fenced ring;
    RingWriter writer(*ring);
    std::uint64_t cells = 0;
    for (int i = 0; i < 200; ++i) {
      switch (random() % 6) {
        case 0:
          ring->taken = random();
          break;
        case 1:
          ring->taken = cells + random() % 3;
          break;
        default:
          ring->taken = std::min<std::uint64_t>(ring->taken + random() % 60, cells);
      }
      for (int k = 0; k < 5; ++k) ring->cells[random() % kCells].word = random();
      const auto length = static_cast<std::uint32_t>(random() % (i % 9 == 0 ? kMost + 1 : 500));
      if (!writer.has_room(length)) {
        if (writer.is_broken()) break;
        continue;
      }
      ASSERT_FALSE(writer.is_broken());
      ASSERT_EQ(writer.write({.body = std::span(bytes).first(length)}), 0);
      cells += cells_of(length);
      ++written;
    }
  }
  EXPECT_GT(written, 2000U);
}

// --- rings in files

TEST(MappedRing, IsOpenedByItsNameAlone) {
  SharedFile file;
  MappedRing made;
  ASSERT_TRUE(made.make(file));
  MappedRing opened;
  ASSERT_TRUE(opened.open(file.name));
  EXPECT_NE(opened.get(), made.get());
  RingWriter writer(*made.get());
  RingReader reader(*opened.get());
  ASSERT_TRUE(writer.has_room(0));
  EXPECT_EQ(writer.write({.kind = Kind::immediate, .value = 7}), 0);
  ASSERT_TRUE(reader.peek());
  EXPECT_EQ(reader.peek()->value, 7U);
  SharedFileName wrong = file.name;
  wrong.mark[0] ^= 1U;
  MappedRing refused;
  const auto of_wrong = refused.open(wrong);
  ASSERT_FALSE(of_wrong);
  EXPECT_EQ(of_wrong.error().code, Errc::permission_denied);
  EXPECT_EQ(refused.get(), nullptr);
}

TEST(MappedRing, AFileOfAnotherLengthIsRefused) {
  for (const std::uint64_t bytes : {sizeof(SharedRingFile) - 4096, sizeof(SharedRingFile) + 4096}) {
    const auto file = SharedFile::create(bytes);
    ASSERT_TRUE(file);
    MappedRing ring;
    EXPECT_FALSE(ring.open(file->name));
  }
}

/// The shared memory of an idle endpoint (docs/adr/0029).
TEST(MappedRing, IsSmall) { EXPECT_LE(sizeof(SharedRingFile), std::size_t{28} << 10U); }

}  // namespace
}  // namespace hbmwire::transport
