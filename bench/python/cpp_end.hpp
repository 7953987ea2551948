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

/// 100,000 blocks of 4 KiB: a KV cache of 400 MB, all of it moved. Their order there is the reverse
/// of that here, so that no two of them can go as one.
inline constexpr std::size_t kPages = 100'000;
inline constexpr std::size_t kPageBytes = 4096;

/// As many that are short, so that what they cost besides their bytes is seen.
inline constexpr std::size_t kRowBytes = 64;

/// A list of 64 parts of 64 KiB.
inline constexpr std::size_t kParts = 64;
inline constexpr std::size_t kPartBytes = std::size_t{64} << 10U;

/// Messages that are received at the same time, of 8 bytes each.
inline constexpr std::size_t kReceives = 1000;

/// The C++ side: what puts.py does, as a C++ program writes it, and the peer of both sides. Each
/// function does its work `count` times, and each time waits until it is over.
class CppEnd {
 public:
  explicit CppEnd(const Place& place);

  /// One put of `bytes`, waited for.
  void put(std::size_t bytes, unsigned count);

  /// A prepared list of kParts.
  void put_list(std::size_t bytes, unsigned count);

  /// All pages, or as many blocks of `bytes`, by put_blocks(), whose numbers are there already.
  void put_blocks(std::size_t bytes, unsigned count);

  /// All pages, of which every other one is half as long: a prepared list that is made each time.
  void put_mixed(std::size_t bytes, unsigned count);

  /// kReceives messages that are all under way before the peer sends the first one, by
  /// Worker::next_done().
  void receive_all(std::size_t bytes, unsigned count);

  /// The other end of receive_all().
  void send_all(std::uint64_t times);

 private:
  static constexpr std::chrono::seconds kPatience{20};

  /// As a prepared list wants them: page by page.
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
