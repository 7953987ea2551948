// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "hbmwire/error.hpp"

#include "base/fences.hpp"
#include "base/shared_file.hpp"

/// Messages from one process of a node to another one, by memory that both have mapped
/// (docs/adr/0029).
namespace hbmwire::transport {

/// How its reader learns of a frame, as it tells its writer.
enum class Attention : std::uint32_t {
  none = 0,    ///< it has not opened the ring; its bell rings all the same
  bell = 1,    ///< it looks at the ring once its bell has rung
  looks = 2,   ///< it looks at the ring each time that it polls
  sleeps = 3,  ///< it has to be woken, too
};

/// A ring of cells, as both processes have it mapped. A frame takes cells in a row, and begins with
/// a word that is 0 as long as there is none: its writer writes that last, and its reader sets the
/// first word of each cell back to 0 when it is done with it. So a process that is killed leaves a
/// whole frame, or none.
struct SharedRingFile {
  static constexpr std::size_t kFileBytes = 28672;
  static constexpr std::size_t kCellBytes = 64;
  static constexpr std::uint32_t kCells = (kFileBytes - 2 * kCellBytes) / kCellBytes;

  struct alignas(kCellBytes) Cell {
    std::atomic<std::uint64_t> word;
    std::array<std::byte, kCellBytes - sizeof(std::uint64_t)> bytes;
  };

  alignas(kCellBytes) std::atomic<std::uint32_t> attention;  // the reader's
  alignas(kCellBytes) std::atomic<std::uint64_t> taken;      // cells, ever; the reader's
  std::array<Cell, kCells> cells;
};

static_assert(sizeof(SharedRingFile) == SharedRingFile::kFileBytes);

/// The kind of a frame. Others are refused.
enum class RingFrameKind : std::uint8_t {
  skip = 1,       ///< nothing: the next one begins at the first cell
  message = 2,    ///< a wire::MessageHeader and what follows it
  immediate = 3,  ///< `value`, of a put of `written` bytes
  word = 4,       ///< nothing: a message of the control lane has come by the socket
};

/// Stands before the bytes of a frame, in its first cell.
struct RingFrameHead {
  std::uint64_t word;  // the kind in the highest byte, the length in the lowest four
  std::uint32_t value;
  std::uint32_t written;
};

/// A ring that this process has made or opened, mapped.
class MappedRing {
 public:
  MappedRing() = default;
  MappedRing(const MappedRing&) = delete;
  MappedRing& operator=(const MappedRing&) = delete;
  ~MappedRing();

  /// Zeros. `file` has to live until the peer has opened it. Errors: Stage::allocate.
  Result<void> make(SharedFile& file);

  /// Maps a ring that another process has made. Errors: Stage::open, as SharedFile::open().
  Result<void> open(const SharedFileName& name);

  [[nodiscard]] SharedRingFile* get() const noexcept { return file_; }

 private:
  SharedRingFile* file_ = nullptr;
};

/// The one end. Nothing that the other process writes makes it write elsewhere, or for ever.
class RingWriter {
 public:
  /// The longest frame; one fits in an empty ring wherever it begins.
  static constexpr std::uint32_t kMostBytes = 12288;

  explicit RingWriter(SharedRingFile& ring) noexcept : ring_(ring) {}

  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;
  ~RingWriter() = default;

  /// Whether a frame of so many bytes fits now.
  [[nodiscard]] bool has_room(std::uint32_t bytes) noexcept;

  struct Frame {
    RingFrameKind kind = RingFrameKind::message;
    std::uint32_t value = 0;
    std::uint32_t written = 0;
    std::span<const std::byte> head = {};  ///< with `body` kMostBytes at most
    std::span<const std::byte> body = {};
    bool guarded = false;  ///< `body` is the application's, and may be gone
  };

  /// Where it has_room(). 0, or EFAULT: `body` can't be read, and there is no frame.
  int write(const Frame& frame) noexcept;

  /// How its reader learns of what was written: to be asked behind write().
  [[nodiscard]] Attention attention() const noexcept;

  /// The reader has taken all but RingFrameKind::word.
  [[nodiscard]] bool is_empty() noexcept { return left_after(taken()) <= written_ - last_; }

  /// The reader has opened it.
  [[nodiscard]] bool is_open() const noexcept {
    return ring_.attention.load(std::memory_order_relaxed) !=
           static_cast<std::uint32_t>(Attention::none);
  }

  /// The reader says what can't be: nothing is written any more.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }

 private:
  [[nodiscard]] std::uint64_t taken() noexcept;

  [[nodiscard]] std::uint64_t left_after(std::uint64_t taken) const noexcept {
    return written_ - taken;
  }

  void skip_to_first() noexcept;

  SharedRingFile& ring_;
  std::uint32_t next_ = 0;     // cell
  std::uint64_t written_ = 0;  // cells, ever
  std::uint64_t last_ = 0;     // behind the last frame that is no word
  std::uint64_t seen_taken_ = 0;
  bool broken_ = false;
};

/// The other end. What it finds is a stranger's word.
class RingReader {
 public:
  explicit RingReader(SharedRingFile& ring) noexcept : ring_(ring) {}

  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader() = default;

  /// Lies in the ring, where its writer may go on changing it.
  struct Frame {
    RingFrameKind kind = RingFrameKind::message;
    std::uint32_t value = 0;
    std::uint32_t written = 0;
    std::span<std::byte> bytes = {};
  };

  /// The next one, until take(); nothing: there is none, or is_broken().
  [[nodiscard]] std::optional<Frame> peek() noexcept;
  void take() noexcept;

  /// Tells its writer what take() has taken.
  void tell_taken() noexcept { ring_.taken.store(taken_, std::memory_order_release); }

  /// Its writer has written what is no frame.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }

  /// Whether there is something for peek().
  [[nodiscard]] bool has_frame() const noexcept {
    return ring_.cells[next_].word.load(std::memory_order_acquire) != 0;
  }

  /// Behind it has_frame() sees all that its writer has written without seeing this.
  void set_attention(Attention how) noexcept {
    ring_.attention.store(static_cast<std::uint32_t>(how), std::memory_order_relaxed);
    full_fence();
  }

 private:
  SharedRingFile& ring_;
  std::uint32_t next_ = 0;   // cell
  std::uint32_t cells_ = 0;  // of the frame that peek() has found
  std::uint64_t taken_ = 0;
  bool broken_ = false;
};

}  // namespace hbmwire::transport
