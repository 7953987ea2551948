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

/// Messages from one process of a node to another one, through memory that both have mapped
/// (docs/adr/0029).
namespace hbmwire::transport {

/// How the reader of a ring notices a frame. The reader publishes this, and the writer acts on it.
enum class Attention : std::uint32_t {
  none = 0,    ///< it has not opened the ring, but its bell must ring
  bell = 1,    ///< it looks at the ring after its bell has rung
  looks = 2,   ///< it looks at the ring at each poll
  sleeps = 3,  ///< it must also be woken up
};

/// A ring of cells that both processes have mapped. A frame takes consecutive cells, and begins
/// with a word that is 0 while there is no frame. The writer writes this word last. The reader sets
/// the first word of each cell back to 0 when it is done with it. So a process that is killed
/// leaves a complete frame, or none.
struct SharedRingFile {
  static constexpr std::size_t kFileBytes = 28672;  // 7 pages: more than two of the longest frames
  static constexpr std::size_t kCellBytes = 64;
  // Two lines of the file hold `attention` and `taken`.
  static constexpr std::uint32_t kCells = (kFileBytes - 2 * kCellBytes) / kCellBytes;

  /// A cache line. `word` belongs to the frame that begins here. Inside a frame it holds bytes.
  struct alignas(kCellBytes) Cell {
    std::atomic<std::uint64_t> word;
    std::array<std::byte, kCellBytes - sizeof(std::uint64_t)> bytes;
  };

  alignas(kCellBytes) std::atomic<std::uint32_t> attention;  // written by the reader
  alignas(kCellBytes) std::atomic<std::uint64_t> taken;      // cells so far; of the reader
  std::array<Cell, kCells> cells;
};

static_assert(sizeof(SharedRingFile) == SharedRingFile::kFileBytes);

/// The kind of a frame. A reader refuses other numbers.
enum class RingFrameKind : std::uint8_t {
  skip = 1,       ///< no data: the next frame begins at the first cell
  message = 2,    ///< a wire::MessageHeader and its payload
  immediate = 3,  ///< `value`: the immediate of a put of `written` bytes
  word = 4,       ///< no data: a control message has come by the socket
};

/// The start of a frame, in its first cell; the frame's bytes follow.
struct RingFrameHead {
  std::uint64_t word;  // the kind in the highest byte, the length in the lowest four
  std::uint32_t value;
  std::uint32_t written;
};

/// The mapping of a ring that this process has made or opened.
class MappedRing {
 public:
  MappedRing() = default;
  MappedRing(const MappedRing&) = delete;
  MappedRing& operator=(const MappedRing&) = delete;
  ~MappedRing();

  /// Makes a ring, full of zeros. `file` must live until the peer has opened it. Errors:
  /// Stage::allocate.
  Result<void> make(SharedFile& file);

  /// Maps a ring that another process has made. Errors: those of SharedFile::open(), Stage::open.
  Result<void> open(const SharedFileName& name);

  [[nodiscard]] SharedRingFile* get() const noexcept { return file_; }

 private:
  SharedRingFile* file_ = nullptr;
};

/// The writer's end. It trusts no byte that the other process writes to the ring: it never writes
/// outside of it, nor loops for ever.
class RingWriter {
 public:
  /// The longest frame, in bytes. It fits in an empty ring from any start.
  static constexpr std::uint32_t kMostBytes = 12288;

  explicit RingWriter(SharedRingFile& ring) noexcept : ring_(ring) {}

  RingWriter(const RingWriter&) = delete;
  RingWriter& operator=(const RingWriter&) = delete;
  ~RingWriter() = default;

  /// Whether a frame of `bytes` bytes fits now.
  [[nodiscard]] bool has_room(std::uint32_t bytes) noexcept;

  struct Frame {
    RingFrameKind kind = RingFrameKind::message;
    std::uint32_t value = 0;
    std::uint32_t written = 0;
    std::span<const std::byte> head = {};  ///< `head` and `body`: at most kMostBytes
    std::span<const std::byte> body = {};
    bool guarded = false;  ///< `body` is the application's, and may be unmapped
  };

  /// Call it only if has_room(). Returns 0, or EFAULT if `body` cannot be read; no frame is written
  /// then.
  int write(const Frame& frame) noexcept;

  /// How the reader notices the frame: call it after write().
  [[nodiscard]] Attention attention() const noexcept;

  /// Whether the reader has taken all frames except those of RingFrameKind::word.
  [[nodiscard]] bool is_empty() noexcept { return left_after(taken()) <= written_ - last_; }

  /// Whether the reader has opened the ring.
  [[nodiscard]] bool is_open() const noexcept {
    return ring_.attention.load(std::memory_order_relaxed) !=
           static_cast<std::uint32_t>(Attention::none);
  }

  /// Whether the reader has published an impossible number: nothing is written any more.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }

 private:
  [[nodiscard]] std::uint64_t taken() noexcept;

  [[nodiscard]] std::uint64_t left_after(std::uint64_t taken) const noexcept {
    return written_ - taken;
  }

  void skip_to_first() noexcept;

  SharedRingFile& ring_;
  std::uint32_t next_ = 0;     // index of a cell
  std::uint64_t written_ = 0;  // cells since the start
  std::uint64_t last_ = 0;     // `written_` after the last frame that is no word
  std::uint64_t seen_taken_ = 0;
  bool broken_ = false;
};

/// The reader's end. It trusts nothing that it finds in the ring.
class RingReader {
 public:
  explicit RingReader(SharedRingFile& ring) noexcept : ring_(ring) {}

  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader() = default;

  /// A frame. Its bytes are in the ring, where the writer may still change them.
  struct Frame {
    RingFrameKind kind = RingFrameKind::message;
    std::uint32_t value = 0;
    std::uint32_t written = 0;
    std::span<std::byte> bytes = {};
  };

  /// The next frame, valid until take(); no value if there is none, or if is_broken().
  [[nodiscard]] std::optional<Frame> peek() noexcept;

  /// Frees the cells of the frame that peek() has found.
  void take() noexcept;

  /// Tells the writer which cells take() has freed.
  void tell_taken() noexcept { ring_.taken.store(taken_, std::memory_order_release); }

  /// Whether the writer has written something that is not a frame.
  [[nodiscard]] bool is_broken() const noexcept { return broken_; }

  /// Whether peek() would find something.
  [[nodiscard]] bool has_frame() const noexcept {
    return ring_.cells[next_].word.load(std::memory_order_acquire) != 0;
  }

  /// After this, has_frame() sees every frame that its writer wrote before it saw the new value.
  void set_attention(Attention how) noexcept {
    ring_.attention.store(static_cast<std::uint32_t>(how), std::memory_order_relaxed);
    full_fence();
  }

 private:
  SharedRingFile& ring_;
  std::uint32_t next_ = 0;   // index of a cell
  std::uint32_t cells_ = 0;  // cells of the frame that peek() has found
  std::uint64_t taken_ = 0;
  bool broken_ = false;
};

}  // namespace hbmwire::transport
