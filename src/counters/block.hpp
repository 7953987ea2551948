// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hbmwire/counters.hpp"

/// The memory that counters lie in. It is an array of blocks of one size, so that another process
/// can read it as a file (HBMWIRE_STATS), whatever has been written by then. A change of any of
/// these types needs another kLayout.
namespace hbmwire::counters {

inline constexpr std::uint64_t kMagic = 0x53544e43574d4248;  // "HBMWCNTS", as the bytes lie
inline constexpr std::uint32_t kLayout = 1;
inline constexpr std::size_t kBlockBytes = 1024;

/// A number that one thread changes at a time, by a plain store, and any may read meanwhile.
class Counter {
 public:
  void add(std::uint64_t more) noexcept { value_.store(value() + more, std::memory_order_relaxed); }

  /// The same where several threads change it.
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

/// The use of a block. `free` is 0: memory that was never used reads so.
enum class BlockType : std::uint32_t { free, process, traffic, times };

/// TransferLabels in a word, which is written at once. 0: no series is there yet.
class PackedLabels {
 public:
  PackedLabels() noexcept = default;

  explicit PackedLabels(const TransferLabels& labels) noexcept
      : word_(kUsed | static_cast<unsigned>(labels.kind) |
              static_cast<unsigned>(labels.path) << 8U |
              static_cast<unsigned>(labels.local) << 16U |
              (labels.remote ? static_cast<unsigned>(*labels.remote) : kNone) << 24U) {}

  /// From a word that another process wrote.
  explicit PackedLabels(std::uint64_t word) noexcept : word_(word) {}

  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  /// False: it stands for no labels.
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
  static constexpr std::uint64_t kUsed = std::uint64_t{1} << 32U;
  static constexpr unsigned kNone = 0xff;
  static constexpr auto kLastKind = static_cast<std::uint64_t>(TransferKind::task);
  static constexpr auto kLastPath = static_cast<std::uint64_t>(Path::shared_memory);

  std::uint64_t word_ = 0;
};

/// The owner of a block's counts, by numbers of this process. 0: owners that have gone.
struct Owner {
  std::uint32_t context = 0;
  std::uint32_t worker = 0;
  std::uint32_t endpoint = 0;  // EndpointState::number

  bool operator==(const Owner&) const = default;
};

/// How a block begins.
struct BlockHead {
  std::atomic<BlockType> type{
      BlockType::free};  // written last, with release, where others may look
  Owner owner;
};

/// Text, as much as fits, with zeros behind it.
template <std::size_t N>
using Text = std::array<char, N>;

/// The first block, of the process. Head, magic, layout and process stay where they are in every
/// layout, so that another version's counters are known as such, and whose they are.
struct ProcessBlock {
  static constexpr BlockType kType = BlockType::process;

  BlockHead head;
  std::uint64_t magic = kMagic;
  std::uint32_t layout = kLayout;
  std::uint32_t process = 0;              // its id, as it sees itself
  std::int64_t since_ns = 0;              // of the system's clock
  std::atomic<std::uint64_t> changes{0};  // odd: counts move from one block to another
  Text<64> program = {};
  Counter retries;
  Counter registrations;  // ever
  Counter deregistrations;
  Counter live_bytes;
  Counter hits;  // of caches: as of the last tick() of a worker
  Counter misses;
  Counter evictions;
};

/// Transfers of an endpoint. Where Owner::endpoint is 0, of a worker those that are no
/// endpoint's, and those of endpoints that have gone, for each of their peers.
struct alignas(64) TrafficBlock {
  static constexpr BlockType kType = BlockType::traffic;
  static constexpr std::size_t kCells = 21;
  static constexpr std::size_t kCodes = 12;  // Errc

  /// One series.
  struct Cell {
    Counter key;     // how the data path knows it again; 0: by its labels alone
    Counter labels;  // PackedLabels; 0: it is free, as all behind it are
    Counter operations;
    Counter bytes;

    /// One more operation, of so many bytes.
    void count(std::uint64_t bytes_of) noexcept {
      operations.add(1);
      bytes.add(bytes_of);
    }
  };

  // A put touches the first cache line.
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

/// Times of a worker's transfers.
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
