// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/common/peer.hpp"
#include "bench/common/queue.hpp"

namespace hbmwire::bench {

/// The kind of memory of a row's ends. Other libraries register memory as private memory, into
/// which the emulated NIC of another process writes by a system call.
enum class Kind : std::uint8_t {
  shared,         ///< a memfd by its dma-buf, like a card's memory
  private_pages,  ///< anonymous
};

/// The memory of one process. All ends that it compares share it, but each has a page of its own
/// for words: the peer writes at the page's beginning, outgoing words are at its middle.
class Bytes {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kUsers = 2;
  static constexpr std::size_t kOut = kPage / 2;
  static constexpr std::size_t kBulk = kUsers * kPage;

  Bytes(Kind kind, std::size_t bulk_bytes);
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes();

  [[nodiscard]] std::byte* data() const { return data_; }

  [[nodiscard]] std::size_t size() const { return size_; }

  /// Null: the memory is private.
  [[nodiscard]] const SharedMemory* shared() const { return shared_ ? &*shared_ : nullptr; }

  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::size_t offset) const {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(data_ + offset));
  }

  void wait_for(std::size_t offset, std::uint64_t value) const {
    spin_until([&] { return word(offset).load(std::memory_order_acquire) == value; });
  }

 private:
  std::optional<SharedMemory> shared_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The place of an end: which user of the Bytes it is, and whether it listens for the other side.
struct Place {
  const Bytes& bytes;
  Line& line;
  std::size_t user = 0;
  bool listens = false;

  [[nodiscard]] std::size_t in() const { return user * Bytes::kPage; }

  [[nodiscard]] std::size_t out() const { return in() + Bytes::kOut; }
};

/// Most requests under way, the same for raw verbs, hbmwire and libfabric.
inline constexpr unsigned kWindow = 64;

/// The blocks of a list: their number, length, and distance from one to the next.
inline constexpr unsigned kBlocks = 1024;
inline constexpr std::size_t kBlockBytes = 256;
inline constexpr std::size_t kBlockStride = 512;

/// The same blocks by pairs of numbers, of which none lie side by side: every second block of a
/// table, from the front here and from the back there.
struct Pairs {
  Pairs() {
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      here[i] = 2 * i;
      there[i] = 2 * (kBlocks - 1 - i);
    }
  }

  std::array<std::uint32_t, kBlocks> here{};
  std::array<std::uint32_t, kBlocks> there{};
};

/// Most messages under way, each way.
inline constexpr unsigned kMessages = 16;

/// Round trips that are timed together. In memory of Kind::shared such a chunk takes only
/// a few microseconds, so rows of latency time a multiple of Effort::chunks to fill a slice.
inline constexpr unsigned kRoundsOfChunk = 8;

}  // namespace hbmwire::bench
