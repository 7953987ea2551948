// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/memory.hpp"

/// What processes of one node say to each other about a dma-buf (docs/attach.md): one request, and
/// one reply with the descriptor beside it. Each is a header of 16 bytes (magic, version, kind,
/// length of what follows) and a body of a size fixed by version and kind; integers big-endian.
namespace hbmwire::wire {

inline constexpr std::uint16_t kAttachVersion = 1;
inline constexpr std::size_t kAttachHeaderBytes = 16;
inline constexpr std::size_t kAttachRequestBytes = kAttachHeaderBytes + 16;
inline constexpr std::size_t kAttachReplyBytes = kAttachHeaderBytes + 36;

using AttachSecret = std::array<std::uint8_t, 16>;

struct AttachRequest {
  AttachSecret secret{};
  bool operator==(const AttachRequest&) const = default;
};

struct AttachReply {
  enum class Status : std::uint8_t {
    granted = 0,         ///< exactly one descriptor comes with it; with the others none
    unknown = 1,         ///< nothing is published under this secret
    other_user = 2,      ///< the asker belongs to another user
    other_version = 3,   ///< the request is of another version of this protocol
    no_descriptors = 4,  ///< the exporter's process is out of them
  };

  Status status = Status::granted;
  MemoryType type = MemoryType::dmabuf;  // what follows is of what was granted, else as it is here
  bool writable = false;
  std::uint64_t offset_bytes = 0;  ///< where the memory begins in the dma-buf
  std::uint64_t length_bytes = 0;
  std::uint64_t base_address = 0;  ///< of the dma-buf's first byte, at the exporter
  std::uint64_t generation = 0;

  bool operator==(const AttachReply&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode(const AttachRequest& request);
[[nodiscard]] std::vector<std::byte> encode(const AttachReply& reply);

/// Whether two secrets are the same, in a time that does not depend on where they differ.
[[nodiscard]] bool equal_in_constant_time(const AttachSecret& a, const AttachSecret& b) noexcept;

/// A message of a stream, put together from pieces of any size. Asks for no byte behind its end.
template <class Message>
class AttachAssembly {
 public:
  /// Where the next bytes belong: never empty before the message is complete. The header comes by
  /// itself, so that another version's is told by it whatever its messages are like.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// Takes the first `count` bytes of room(): the message when it is complete with them. Errors:
  /// Errc::protocol, and then nothing more may be taken.
  Result<std::optional<Message>> advance(std::size_t count);

 private:
  static constexpr std::size_t kBytes =
      std::is_same_v<Message, AttachRequest> ? kAttachRequestBytes : kAttachReplyBytes;

  std::array<std::byte, kBytes> bytes_{};
  std::size_t filled_ = 0;
};

extern template class AttachAssembly<AttachRequest>;
extern template class AttachAssembly<AttachReply>;

}  // namespace hbmwire::wire
