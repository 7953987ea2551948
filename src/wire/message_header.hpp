// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace hbmwire::wire {

/// What precedes a message on the data lane. Little-endian on the wire, whose two ends nearly
/// always are: it is read and written once a message.
struct MessageHeader {
  enum class Kind : std::uint8_t {
    credit = 1,       ///< nothing but `credits`
    plain = 2,        ///< `length` bytes follow
    tagged = 3,       ///< the same
    plain_large = 4,  ///< `length` bytes are to be read at `address`, or asked for
    tagged_large = 5,
    clear = 6,     ///< to the sender of a large one, `id`: write `length` bytes to `address`
    finished = 7,  ///< the other end has moved the bytes of `id`; `length`: of them, what was taken
  };

  Kind kind = Kind::credit;
  bool readable = false;      ///< of a large one: remote_key lets the receiver read
  std::uint16_t credits = 0;  ///< receives that the sender of this has posted anew
  std::uint32_t id = 0;       ///< of a large message, chosen by its sender
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t reserved = 0;

  bool operator==(const MessageHeader&) const = default;
};

inline constexpr std::size_t kMessageHeaderBytes = 40;
static_assert(sizeof(MessageHeader) == kMessageHeaderBytes &&
              std::endian::native == std::endian::little);

/// `out` has room for kMessageHeaderBytes.
inline void encode(const MessageHeader& header, std::byte* out) noexcept {
  std::memcpy(out, &header, kMessageHeaderBytes);
}

/// Nothing when it is none, or what follows it is not as long as it says. `bytes`: all that came.
[[nodiscard]] inline std::optional<MessageHeader> decode_header(
    std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kMessageHeaderBytes) return std::nullopt;
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  const auto readable = std::to_integer<std::uint8_t>(bytes[1]);
  if (kind < 1 || kind > 7 || readable > 1) return std::nullopt;
  MessageHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), kMessageHeaderBytes);
  const bool carries =
      header.kind == MessageHeader::Kind::plain || header.kind == MessageHeader::Kind::tagged;
  if (bytes.size() - kMessageHeaderBytes != (carries ? header.length : 0)) return std::nullopt;
  if (header.length > ~std::uint64_t{0} - header.address) return std::nullopt;
  return header;
}

}  // namespace hbmwire::wire
