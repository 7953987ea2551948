// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hbmwire/counters.hpp"

/// The memory that holds the counters. It is an array of blocks of one size, so that another
/// process can read it as a file at any time (HBMWIRE_STATS). A change of any of these types needs
/// another kLayout.
namespace hbmwire::counters {

inline constexpr std::uint64_t kMagic = 0x53544e43574d4248;  // "HBMWCNTS" in memory order
inline constexpr std::uint32_t kLayout = 1;
inline constexpr std::size_t kBlockBytes = 1024;

/// A number that one thread at a time changes by a plain store, and that any thread may read
/// meanwhile.
class Counter {
 public:
  void add(std::uint64_t more) noexcept { value_.store(value() + more, std::memory_order_relaxed); }

  /// Like add(), if several threads may change it.
  void add_shared(std::uint64_t more) noexcept {
    value_.fetch_add(more, std::memory_order_relaxed);
  }

  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t value() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

static_assert(sizeof(Counter) == sizeof(std::uint64_t) &&
              std::atomic<std::uint64_t>::is_always_lock_free);

/// The use of a block. `free` is 0, because memory that was never used reads as 0.
enum class BlockType : std::uint32_t { free, process, traffic, times };

/// TransferLabels in one word, so that they are written at once. 0: no series yet.
class PackedLabels {
 public:
  PackedLabels() noexcept = default;

  explicit PackedLabels(const TransferLabels& labels) noexcept
      : word_(kUsed | static_cast<unsigned>(labels.kind) |
              static_cast<unsigned>(labels.path) << 8U |
              static_cast<unsigned>(labels.local) << 16U |
              (labels.remote ? static_cast<unsigned>(*labels.remote) : kNone) << 24U) {}

  /// From a word that another process may have written.
  explicit PackedLabels(std::uint64_t word) noexcept : word_(word) {}

  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  /// Returns false if the word stands for no labels.
  [[nodiscard]] bool unpack(TransferLabels& labels) const noexcept {
    const auto byte = [this](unsigned shift) { return (word_ >> shift) & 0xffU; };
    const auto most = static_cast<std::uint64_t>(kMemoryTypes.size());
    const bool known = (word_ & ~std::uint64_t{0xffffffff}) == kUsed && byte(0) <= kLastKind &&
                       byte(8) <= kLastPath && byte(16) < most &&
                       (byte(24) < most || byte(24) == kNone);
    if (!known) return false;
    labels = {.kind = static_cast<TransferKind>(byte(0)),
              .path = static_cast<Path>(byte(8)),
              .local = static_cast<MemoryType>(byte(16)),
              .remote = {}};
    if (byte(24) != kNone) labels.remote = static_cast<MemoryType>(byte(24));
    return true;
  }

 private:
  static constexpr std::uint64_t kUsed = std::uint64_t{1} << 32U;  // in each word: labels may be 0
  static constexpr unsigned kNone = 0xff;
  static constexpr auto kLastKind = static_cast<std::uint64_t>(TransferKind::task);
  static constexpr auto kLastPath = static_cast<std::uint64_t>(Path::shared_memory);

  std::uint64_t word_ = 0;
};

/// The owner of a block's counts, as numbers of this process. 0: owners that have gone.
struct Owner {
  std::uint32_t context = 0;
  std::uint32_t worker = 0;
  std::uint32_t endpoint = 0;  // EndpointState::number

  bool operator==(const Owner&) const = default;
};

/// The beginning of each block.
struct BlockHead {
  std::atomic<BlockType> type{
      BlockType::free};  // written last, with release, because other threads may look
  Owner owner;
};

/// Text, cut to the size, and filled up with zeros.
template <std::size_t N>
using Text = std::array<char, N>;

/// The first block, for the process. Head, magic, layout and process stay at the same place in
/// every layout, so that a reader recognizes the counters of another version and their process.
struct ProcessBlock {
  static constexpr BlockType kType = BlockType::process;

  BlockHead head;
  std::uint64_t magic = kMagic;
  std::uint32_t layout = kLayout;
  std::uint32_t process = 0;              // the process id, as the process sees it
  std::int64_t since_ns = 0;              // start time, by the system's clock
  std::atomic<std::uint64_t> changes{0};  // odd: counts are moving between blocks
  Text<64> program = {};
  Counter retries;
  Counter registrations;  // since the start
  Counter deregistrations;
  Counter live_bytes;
  Counter hits;  // look-ups of caches, as of a worker's last tick()
  Counter misses;
  Counter evictions;
};

/// The transfers of an endpoint. If Owner::endpoint is 0: those of a worker that belong to no
/// endpoint, and those of endpoints that have gone, in a block for each peer.
struct alignas(64) TrafficBlock {
  static constexpr BlockType kType = BlockType::traffic;
  static constexpr std::size_t kCells = 21;
  static constexpr std::size_t kCodes = 12;  // the number of values of Errc

  /// One series.
  struct Cell {
    Counter key;     // the data path's name for it; 0: it has only its labels
    Counter labels;  // PackedLabels; 0: this cell and all after it are free
    Counter operations;
    Counter bytes;

    /// Counts one more operation of `bytes_of` bytes.
    void count(std::uint64_t bytes_of) noexcept {
      operations.add(1);
      bytes.add(bytes_of);
    }
  };

  // A put touches only the first cache line.
  BlockHead head;
  Counter started;
  Counter queued;
  std::array<Cell, kCells> cells;
  std::array<Counter, kCodes> failures;
  Counter credit_waits;
  Counter broken;  // connections that have failed
  Text<24> nic = {};
  Text<72> peer = {};
};

/// The times of a worker's transfers.
struct TimesBlock {
  static constexpr BlockType kType = BlockType::times;
  static constexpr std::size_t kSeries = 3;

  struct Series {
    Counter labels;  // PackedLabels
    Counter sum_ns;
    std::array<Counter, kTimeBuckets> transfers;
  };

  BlockHead head;
  std::array<Series, kSeries> series;
};

template <class Block>
inline constexpr bool kIsBlock =
    sizeof(Block) <=
    kBlockBytes&& std::is_standard_layout_v<Block>&& std::is_trivially_destructible_v<Block>;
static_assert(kIsBlock<ProcessBlock> && kIsBlock<TrafficBlock> && kIsBlock<TimesBlock>);

}  // namespace hbmwire::counters
