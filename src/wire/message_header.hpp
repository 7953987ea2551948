// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace hbmwire::wire {

/// The header of a message on the data lane. Little-endian, as nearly all machines are, so that it
/// can be copied unchanged for each message. Fields that a kind does not name are zero.
struct MessageHeader {
  enum class Kind : std::uint8_t {
    credit = 1,        ///< only `credits`, which every kind has
    plain = 2,         ///< `length` bytes follow; with an `id` the sender waits for `finished`
    tagged = 3,        ///< as `plain`, with a `tag`
    plain_large = 4,   ///< message `id`, of `length` bytes at `address`; see readable()
    tagged_large = 5,  ///< as `plain_large`, with a `tag`
    clear = 6,     ///< to the sender of large message `id`: write `length` bytes to `address`, then
                   ///< send `written` with the id in `tag`
    finished = 7,  ///< to the sender of `id`: its `outcome`; `length`: bytes taken
    written = 8,   ///< to the sender of `clear`: the `length` bytes of `id` are in place
    put = 9,   ///< to the exporter of token `tag`: read `length` bytes from `address`, write them
               ///< to the place in the 8 bytes after the header, send `finished` of `id`
    get = 10,  ///< as `put`, in the other direction
  };

  /// The result of a message at its receiver.
  enum class Outcome : std::uint8_t {
    taken = 0,
    too_long = 1,  ///< longer than its receive
    refused = 2,   ///< the receiver could not open its memory, or not move its bytes
    denied = 3,    ///< put and get: no key of the receiver allows it
    let_go = 4,    ///< the receiver's program did not want it
  };

  Kind kind = Kind::credit;
  std::uint8_t flags = 0;
  std::uint16_t credits = 0;  ///< further messages that its receiver may send
  std::uint32_t id = 0;       ///< from 1 on; counted by the sender of the message or `clear`
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t remote_key = 0;
  Outcome outcome = Outcome::taken;
  std::uint8_t path = 0;  ///< of the sender's memory: MemoryType * 16 + Path
  /// Between two processes of a node. Large message: the number by which the receiver finds the
  /// memory (detail::SharedKeyFile), from 1 on; 0: it cannot. `finished`: 1 if the memory was read
  /// in that way.
  std::uint16_t shared_key = 0;

  static constexpr std::uint8_t kReadable = 1;
  static constexpr std::uint8_t kInlined = 2;  ///< plain and tagged: carried in the request itself

  /// For large messages: whether the receiver may READ the bytes with `remote_key`. Otherwise it
  /// asks the sender to write them, by `clear`.
  [[nodiscard]] bool readable() const noexcept { return (flags & kReadable) != 0; }

  [[nodiscard]] bool tagged_kind() const noexcept {
    return kind == Kind::tagged || kind == Kind::tagged_large;
  }

  [[nodiscard]] bool large() const noexcept {
    return kind == Kind::plain_large || kind == Kind::tagged_large;
  }

  /// Whether bytes of the message follow the header.
  [[nodiscard]] bool carries() const noexcept {
    return kind == Kind::plain || kind == Kind::tagged;
  }

  /// Whether it asks the receiver's process to move bytes of memory that that process exported.
  [[nodiscard]] bool asks() const noexcept { return kind == Kind::put || kind == Kind::get; }

  bool operator==(const MessageHeader&) const = default;
};

inline constexpr std::size_t kMessageHeaderBytes = 40;
inline constexpr std::size_t kPlaceBytes = 8;       // after the header of put and get
inline constexpr std::uint8_t kLastKind = 10;       // MessageHeader::Kind::get
inline constexpr std::uint8_t kLastOutcome = 4;     // MessageHeader::Outcome::let_go
inline constexpr std::uint8_t kLastPath = 4;        // Path::staged
inline constexpr std::uint8_t kNeverTold = 3;       // Path::nic_loopback: never sent
inline constexpr std::uint8_t kLastMemoryType = 4;  // MemoryType::dmabuf
static_assert(sizeof(MessageHeader) == kMessageHeaderBytes &&
              std::endian::native == std::endian::little);

/// `out` must have room for kMessageHeaderBytes.
inline void encode(const MessageHeader& header, std::byte* out) noexcept {
  std::memcpy(out, &header, kMessageHeaderBytes);
}

namespace message_header_detail {

using Kind = MessageHeader::Kind;

/// Whether length and id are possible for this kind. `needs_bytes`: whether 0 bytes are impossible.
inline bool length_and_id_fit(const MessageHeader& header, bool needs_bytes) noexcept {
  if (header.kind == Kind::credit) {
    // A credit message needs no credit itself: if it gave none, it could be sent without end.
    return header.length == 0 && header.credits != 0 && header.id == 0;
  }
  // Flushing or opening memory needs at least one byte of it.
  return (!needs_bytes || header.length != 0) && (header.id != 0 || header.carries());
}

/// Whether only fields that the kind names are set.
inline bool fields_fit(const MessageHeader& header) noexcept {
  const bool answer = header.kind == Kind::finished || header.kind == Kind::written;
  const bool has_memory = header.large() || header.kind == Kind::clear || header.asks();
  const bool needs_bytes = has_memory || header.kind == Kind::written;
  const bool may_share =
      header.large() || (header.kind == Kind::finished && header.shared_key == 1);
  if ((header.shared_key != 0 && !may_share) || !length_and_id_fit(header, needs_bytes))
    return false;
  if (!has_memory && (header.address != 0 || header.remote_key != 0)) return false;
  const bool has_tag = header.tagged_kind() || header.kind == Kind::clear || header.asks();
  if (!has_tag && header.tag != 0) return false;
  // No process exports memory with the token 0.
  if (header.asks() && header.tag == 0) return false;
  if (header.outcome != MessageHeader::Outcome::taken && header.kind != Kind::finished)
    return false;
  if (answer || header.kind == Kind::credit || header.kind == Kind::clear || header.asks())
    return header.flags == 0;
  return header.flags == 0 ||
         header.flags == (header.carries() ? MessageHeader::kInlined : MessageHeader::kReadable);
}

}  // namespace message_header_detail

/// `bytes` is the start of `whole_bytes` bytes that came. No value if they are not a header, or if
/// the bytes after it are not as many as it says. The receiver must check ids and keys itself.
[[nodiscard]] inline std::optional<MessageHeader> decode_header(
    std::span<const std::byte, kMessageHeaderBytes> bytes, std::size_t whole_bytes) noexcept {
  constexpr std::size_t kOutcomeAt = offsetof(MessageHeader, outcome);
  constexpr std::size_t kPathAt = offsetof(MessageHeader, path);
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  // Checked before the numbers become enumerators.
  const auto side = std::to_integer<std::uint8_t>(bytes[kPathAt]);
  const unsigned path = side & 15U;
  if (kind < 1 || kind > kLastKind ||
      std::to_integer<std::uint8_t>(bytes[kOutcomeAt]) > kLastOutcome || path > kLastPath ||
      path == kNeverTold || side >> 4U > kLastMemoryType) {
    return std::nullopt;
  }
  MessageHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), kMessageHeaderBytes);
  const std::uint64_t behind = header.carries() ? header.length : header.asks() ? kPlaceBytes : 0;
  if (whole_bytes - kMessageHeaderBytes != behind) return std::nullopt;
  // The range must not wrap around.
  if (header.length > ~std::uint64_t{0} - header.address) return std::nullopt;
  if (!message_header_detail::fields_fit(header)) return std::nullopt;
  return header;
}

/// As above, if `bytes` are all that came.
[[nodiscard]] inline std::optional<MessageHeader> decode_header(
    std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kMessageHeaderBytes) return std::nullopt;
  return decode_header(bytes.first<kMessageHeaderBytes>(), bytes.size());
}

/// The address in exported memory for a put or get. `out` must have room for kPlaceBytes.
inline void encode_place(std::uint64_t address, std::byte* out) noexcept {
  std::memcpy(out, &address, kPlaceBytes);
}

/// `bytes` must be a put or get that decode_header() has accepted.
[[nodiscard]] inline std::uint64_t decode_place(const std::byte* bytes) noexcept {
  std::uint64_t address = 0;
  std::memcpy(&address, bytes + kMessageHeaderBytes, kPlaceBytes);
  return address;
}

}  // namespace hbmwire::wire
