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

/// The messages about a dma-buf between processes of one node (docs/attach.md): one request, and
/// one reply with the descriptor. Each message has a header of 16 bytes (magic, version, kind,
/// length of the body), and a body whose size depends on version and kind. Integers are big-endian.
namespace hbmwire::wire {

inline constexpr std::uint16_t kAttachVersion = 1;
inline constexpr std::size_t kAttachHeaderBytes = 16;
inline constexpr std::size_t kAttachRequestBytes = kAttachHeaderBytes + 16;
inline constexpr std::size_t kAttachReplyBytes = kAttachHeaderBytes + 36;

using AttachSecret = std::array<std::uint8_t, 16>;

/// Asks for the memory that is published with this secret.
struct AttachRequest {
  AttachSecret secret{};
  bool operator==(const AttachRequest&) const = default;
};

/// The answer. If `status` is granted, a descriptor of the dma-buf comes with it.
struct AttachReply {
  enum class Status : std::uint8_t {
    granted = 0,         ///< exactly one descriptor comes with the reply; else none
    unknown = 1,         ///< nothing is published with this secret
    other_user = 2,      ///< the client belongs to another user
    other_version = 3,   ///< the request has another version of this protocol
    no_descriptors = 4,  ///< the exporter's process has no descriptor left
  };

  Status status = Status::granted;
  MemoryType type = MemoryType::dmabuf;  // all members below are set only if granted
  bool writable = false;
  std::uint64_t offset_bytes = 0;  ///< the start of the memory in the dma-buf
  std::uint64_t length_bytes = 0;
  std::uint64_t base_address = 0;  ///< address of the dma-buf's first byte, in the exporter
  std::uint64_t generation = 0;

  bool operator==(const AttachReply&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode(const AttachRequest& request);
[[nodiscard]] std::vector<std::byte> encode(const AttachReply& reply);

/// Compares two secrets, in a time that does not depend on where they differ.
[[nodiscard]] bool equal_in_constant_time(const AttachSecret& a, const AttachSecret& b) noexcept;

/// Assembles a message from pieces of a stream, of any size. Never takes a byte after the message's
/// end.
template <class Message>
class AttachAssembly {
 public:
  /// The memory for the next bytes; not empty until the message is complete. The header comes
  /// alone, so that another version is recognized by its header, whatever its messages look like.
  [[nodiscard]] std::span<std::byte> room() noexcept;

  /// Takes the first `count` bytes of room(), and returns the message if it is complete then.
  /// Errors: Errc::protocol; after an error, do not call it again.
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
