// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/guarded_copy.hpp"
#include "transport/shared/ring.hpp"

namespace hbmwire::transport {

namespace {

constexpr std::uint32_t kCells = SharedRingFile::kCells;
constexpr unsigned kKindShift = 56;

constexpr std::uint32_t cells_for(std::uint64_t bytes) noexcept {
  return static_cast<std::uint32_t>(
      (sizeof(RingFrameHead) + bytes + SharedRingFile::kCellBytes - 1) /
      SharedRingFile::kCellBytes);
}

// A frame that does not fit after the last one begins at the first cell: the cells that it skips
// must be free, too.
static_assert(2 * cells_for(RingWriter::kMostBytes) - 1 <= kCells);

/// The bytes of a frame: they begin after the word of its first cell and run through the cells that
/// follow.
std::byte* bytes_of(SharedRingFile::Cell& cell) noexcept {
  return reinterpret_cast<std::byte*>(&cell) + sizeof cell.word;
}

constexpr std::uint64_t word_of(RingFrameKind kind, std::uint64_t length) noexcept {
  return static_cast<std::uint64_t>(kind) << kKindShift | length;
}

}  // namespace

std::uint64_t RingWriter::taken() noexcept {
  const std::uint64_t told = ring_.taken.load(std::memory_order_acquire);
  // An honest reader's count neither decreases nor exceeds the cells that were written. If it did,
  // the difference on the left would be larger: it would grow, or wrap around.
  if (written_ - told > written_ - seen_taken_) {
    broken_ = true;
  } else {
    seen_taken_ = told;
  }
  return seen_taken_;
}

bool RingWriter::has_room(std::uint32_t bytes) noexcept {
  const std::uint32_t cells = cells_for(bytes);
  const std::uint32_t to_end = kCells - next_;
  const std::uint64_t needed = cells > to_end ? to_end + cells : cells;
  if (kCells - left_after(seen_taken_) >= needed) [[likely]]
    return !broken_;
  return kCells - left_after(taken()) >= needed && !broken_;
}

void RingWriter::skip_to_first() noexcept {
  ring_.cells[next_].word.store(word_of(RingFrameKind::skip, 0), std::memory_order_release);
  written_ += kCells - next_;
  next_ = 0;
}

int RingWriter::write(const Frame& frame) noexcept {
  const std::uint64_t length = frame.head.size() + frame.body.size();
  const std::uint32_t cells = cells_for(length);
  const bool skips = cells > kCells - next_;
  const std::uint32_t place = skips ? 0 : next_;
  SharedRingFile::Cell& first = ring_.cells[place];
  std::byte* const begin = bytes_of(first);
  std::memcpy(begin, &frame.value, sizeof frame.value);
  std::memcpy(begin + sizeof frame.value, &frame.written, sizeof frame.written);
  std::byte* const bytes = begin + sizeof frame.value + sizeof frame.written;
  if (!frame.head.empty()) std::memcpy(bytes, frame.head.data(), frame.head.size());
  std::byte* const body = bytes + frame.head.size();
  if (frame.guarded && !frame.body.empty()) [[unlikely]] {
    if (!copy_from_application({body, frame.body.size()}, frame.body.data())) {
      // The next frame needs the word of each of its cells to be 0.
      for (std::uint32_t i = 0; i < cells; ++i)
        ring_.cells[place + i].word.store(0, std::memory_order_relaxed);
      return EFAULT;
    }
  } else if (!frame.body.empty()) {
    std::memcpy(body, frame.body.data(), frame.body.size());
  }
  // Written only when the frame is complete: the reader takes a skip together with the frame after
  // it.
  if (skips) [[unlikely]]
    skip_to_first();
  first.word.store(word_of(frame.kind, length), std::memory_order_release);
  written_ += cells;
  if (frame.kind != RingFrameKind::word) [[likely]]
    last_ = written_;
  next_ += cells;
  if (next_ == kCells) next_ = 0;
  return 0;
}

Attention RingWriter::attention() const noexcept {
  // Pairs with RingReader::set_attention(): either the reader sees the frame, or this sees the
  // reader's new attention.
  full_fence();
  const std::uint32_t told = ring_.attention.load(std::memory_order_relaxed);
  // The bell must ring for `none`, too. For an unknown number the reader is woken, to be sure.
  return told == static_cast<std::uint32_t>(Attention::looks)  ? Attention::looks
         : told <= static_cast<std::uint32_t>(Attention::bell) ? Attention::bell
                                                               : Attention::sleeps;
}

std::optional<RingReader::Frame> RingReader::peek() noexcept {
  std::uint64_t word = ring_.cells[next_].word.load(std::memory_order_acquire);
  if (word == 0) [[likely]]
    return std::nullopt;
  // A skip is valid only near the end, where not every frame fits. So no second skip can follow,
  // and looking at the next cell ends the search.
  if (word == word_of(RingFrameKind::skip, 0) &&
      kCells - next_ < cells_for(RingWriter::kMostBytes) && !broken_) [[unlikely]] {
    cells_ = kCells - next_;
    take();
    word = ring_.cells[next_].word.load(std::memory_order_acquire);
    if (word == 0) return std::nullopt;
  }
  // Read only once: the writer could change the word after the checks below.
  const std::uint64_t kind = word >> kKindShift;
  const std::uint64_t length = word & ~(std::uint64_t{0xff} << kKindShift);
  const bool known = kind >= static_cast<std::uint64_t>(RingFrameKind::message) &&
                     kind <= static_cast<std::uint64_t>(RingFrameKind::word);
  if (broken_ || !known || length > RingWriter::kMostBytes || cells_for(length) > kCells - next_)
      [[unlikely]] {
    broken_ = true;
    return std::nullopt;
  }
  cells_ = cells_for(length);
  std::byte* const begin = bytes_of(ring_.cells[next_]);
  Frame frame{.kind = static_cast<RingFrameKind>(kind)};
  std::memcpy(&frame.value, begin, sizeof frame.value);
  std::memcpy(&frame.written, begin + sizeof frame.value, sizeof frame.written);
  frame.bytes = {begin + sizeof frame.value + sizeof frame.written, length};
  return frame;
}

void RingReader::take() noexcept {
  for (std::uint32_t i = 0; i < cells_; ++i)
    ring_.cells[next_ + i].word.store(0, std::memory_order_relaxed);
  taken_ += cells_;
  next_ += cells_;
  if (next_ == kCells) next_ = 0;
  cells_ = 0;
}

}  // namespace hbmwire::transport
