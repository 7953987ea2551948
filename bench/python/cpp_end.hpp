// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/hbmwire.hpp"
#include "hbmwire/memory_key.hpp"

#include "bench/endpoint/bytes.hpp"

namespace hbmwire::bench {

/// 100,000 blocks of 4 KiB, a KV cache of 400 MB; all of it is moved. The order there is the
/// reverse of that here, so that no two blocks can be joined.
inline constexpr std::size_t kPages = 100'000;
inline constexpr std::size_t kPageBytes = 4096;

/// As many short blocks, to show the cost besides that of the bytes.
inline constexpr std::size_t kRowBytes = 64;

/// A list of 64 parts of 64 KiB.
inline constexpr std::size_t kParts = 64;
inline constexpr std::size_t kPartBytes = std::size_t{64} << 10U;

/// Messages that are received at the same time, 8 bytes each.
inline constexpr std::size_t kReceives = 1000;

/// The C++ side: does the work of puts.py as a C++ program would, and is the peer of both sides.
/// Each function does its work `count` times, and waits each time until it is over.
class CppEnd {
 public:
  explicit CppEnd(const Place& place);

  /// Puts `bytes`, and waits.
  void put(std::size_t bytes, unsigned count);

  /// Posts a prepared list of kParts.
  void put_list(std::size_t bytes, unsigned count);

  /// Puts all pages, or as many blocks of `bytes`, by put_blocks(). The block numbers exist
  /// already.
  void put_blocks(std::size_t bytes, unsigned count);

  /// Puts all pages, with every second one half as long, by a prepared list that is made each time.
  void put_mixed(std::size_t bytes, unsigned count);

  /// Receives kReceives messages by Worker::next_done(). All receives are under way before the peer
  /// sends the first message.
  void receive_all(std::size_t bytes, unsigned count);

  /// The other end of receive_all().
  void send_all(std::uint64_t times);

 private:
  static constexpr std::chrono::seconds kPatience{20};

  /// The parts for a prepared list, page by page.
  [[nodiscard]] std::vector<TransferPart> mixed_parts() const;

  const Bytes& bytes_;
  std::size_t in_;
  std::size_t out_;
  std::uint64_t round_ = 0;
  Context context_;
  Worker worker_;
  Region region_;
  MemoryKey key_;
  Endpoint endpoint_;
  RemoteRegion remote_;
  std::optional<PreparedTransfer> list_;
  std::optional<std::pair<BlockTable, RemoteBlockTable>> tables_;
  std::vector<std::uint64_t> here_;
  std::vector<std::uint64_t> there_;
};

}  // namespace hbmwire::bench
