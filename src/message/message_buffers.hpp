// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hbmwire/error.hpp"

namespace hbmwire::transport {
class Lane;
}

namespace hbmwire::detail {

class Inbox;

/// A place for a message, in registered host memory.
struct MessageBuffer {
  Inbox* inbox = nullptr;  // null: of a test
  std::byte* bytes = nullptr;
  std::uint32_t local_key = 0;
};

/// Where the peer's messages come: the receives of the data lane, each with a buffer. Counts those
/// that are posted, and those whose message stays in them until a receive takes it.
class MessageBuffers {
 public:
  /// Beyond what the peer has credits for: messages that bring credits need none, and some buffers
  /// wait to be posted again.
  static constexpr std::uint32_t kMostRead = 8;
  static constexpr std::uint32_t kSpare = 4 + kMostRead - 1;

  /// `count` buffers for a header and `eager_bytes` each; at most `most_kept` keep their message.
  MessageBuffers(std::uint32_t count, std::uint32_t eager_bytes, std::uint32_t most_kept) noexcept;

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// `memory`: memory_bytes() of them, registered as `local_key`. May throw std::bad_alloc.
  void set_memory(Inbox& inbox, std::byte* memory, std::uint32_t local_key);

  /// Errors: Stage::post.
  Result<void> post_all(transport::Lane& lane);

  /// A receive has completed: its buffer is the caller's until post_again().
  void on_completed() noexcept { --posted_; }

  /// Posts the receive again, together with some others. `errno` of ibv_post_recv(3).
  int post_again(transport::Lane& lane, MessageBuffer& buffer) noexcept;

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }

  // --- messages that stay in their buffer

  [[nodiscard]] bool may_keep() const noexcept { return kept_ < most_kept_; }

  void keep() noexcept { ++kept_; }

  void end_keeping() noexcept { --kept_; }

 private:
  int post_read(transport::Lane& lane) noexcept;

  std::vector<MessageBuffer> buffers_;
  /// Those whose messages were read: they are posted again together, which costs less than one by
  /// one, and nothing between a message and its answer.
  std::array<MessageBuffer*, kMostRead> read_{};
  std::uint32_t read_count_ = 0;
  std::uint32_t count_;
  std::uint32_t receive_bytes_;  // of each receive: a header and what may follow it
  std::uint32_t posted_ = 0;
  std::uint32_t kept_ = 0;
  std::uint32_t most_kept_;
};

}  // namespace hbmwire::detail
