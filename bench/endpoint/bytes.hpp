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

/// What kind of memory the ends of a row have. Other libraries register what they are given as
/// private memory, into which the emulated NIC of another process writes by a system call.
enum class Kind : std::uint8_t {
  shared,         ///< a memfd by its dma-buf, as a card's memory is
  private_pages,  ///< anonymous
};

/// The memory of one process, which all that it compares use, each with a page for words of its
/// own: what the peer writes into that is at its beginning, what goes out at its middle.
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

  /// Null: private.
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

/// Where an end finds itself: which of the Bytes' users it is, and whether the other side comes to
/// it.
struct Place {
  const Bytes& bytes;
  Line& line;
  std::size_t user = 0;
  bool listens = false;

  [[nodiscard]] std::size_t in() const { return user * Bytes::kPage; }

  [[nodiscard]] std::size_t out() const { return in() + Bytes::kOut; }
};

/// How many requests are under way at most, as raw verbs, we and libfabric do it.
inline constexpr unsigned kWindow = 64;

/// A list of so many blocks, each so long and so far behind the one before it.
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

/// How many messages are under way at most, each way.
inline constexpr unsigned kMessages = 16;

/// Round trips that are timed together.
inline constexpr unsigned kRoundsOfChunk = 8;

}  // namespace hbmwire::bench
