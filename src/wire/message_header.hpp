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
/// always are: it is read and written once a message. Fields that a kind does not name are zero.
struct MessageHeader {
  enum class Kind : std::uint8_t {
    credit = 1,       ///< `credits` alone, which every kind has
    plain = 2,        ///< `length` bytes follow; with an `id` it waits for `finished`
    tagged = 3,       ///< the same, with a `tag`
    plain_large = 4,  ///< `length` bytes lie at `address`, to be read by `remote_key` where that is
    tagged_large = 5,  ///< `readable`, else to be asked for by `clear`; `id`
    clear = 6,  ///< to the sender of a large one, `id`: write `length` bytes to `address`, and say
                ///< `written` with what `tag` says as its `id`
    finished = 7,  ///< to the sender of `id`: how it ended (`outcome`); `length`: bytes taken
    written = 8,   ///< to who said `clear`: the `length` bytes of `id` are there
    put = 9,   ///< to who exported memory by the token `tag`: read `length` bytes from `address`,
               ///< write them to where the 8 bytes behind the header say, say `finished` of `id`
    get = 10,  ///< the same, the other way round
  };

  /// How a message ended at its receiver.
  enum class Outcome : std::uint8_t {
    taken = 0,
    too_long = 1,  ///< longer than the receive that it was for
    refused = 2,   ///< the receiver could not open its memory, or not move its bytes
    denied = 3,    ///< of put and get: no key of its receiver's allows it
    let_go = 4,    ///< the receiver's program did not want it
  };

  Kind kind = Kind::credit;
  std::uint8_t flags = 0;
  std::uint16_t credits = 0;  ///< messages that its receiver may send besides
  std::uint32_t id = 0;       ///< 1 and more; of its own, by who sent the message or `clear`
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t remote_key = 0;
  Outcome outcome = Outcome::taken;
  std::uint8_t path = 0;  ///< of the memory of who says this: MemoryType * 16 + Path
  /// Between two processes of a node. Of a large one: by what its receiver finds the memory
  /// (detail::SharedKeyFile), from 1 on; 0: it does not. Of `finished`: 1 if it has read it so.
  std::uint16_t shared_key = 0;

  static constexpr std::uint8_t kReadable = 1;
  static constexpr std::uint8_t kInlined = 2;  ///< of plain and tagged: stood in the request

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

  /// Whether it asks the receiver's process to move bytes of memory that this one exported.
  [[nodiscard]] bool asks() const noexcept { return kind == Kind::put || kind == Kind::get; }

  bool operator==(const MessageHeader&) const = default;
};

inline constexpr std::size_t kMessageHeaderBytes = 40;
inline constexpr std::size_t kPlaceBytes = 8;       // behind the header of one that asks
inline constexpr std::uint8_t kLastPath = 4;        // Path::staged
inline constexpr std::uint8_t kNeverTold = 3;       // Path::nic_loopback: each end knows by itself
inline constexpr std::uint8_t kLastMemoryType = 4;  // MemoryType::dmabuf
static_assert(sizeof(MessageHeader) == kMessageHeaderBytes &&
              std::endian::native == std::endian::little);

/// `out` has room for kMessageHeaderBytes.
inline void encode(const MessageHeader& header, std::byte* out) noexcept {
  std::memcpy(out, &header, kMessageHeaderBytes);
}

namespace message_header_detail {

using Kind = MessageHeader::Kind;

/// Of who wants what, and of which length: whether `kind` admits it.
inline bool length_and_id_fit(const MessageHeader& header, bool large) noexcept {
  if (header.kind == Kind::credit) {
    // One that gives no credit would be one that takes none, and comes without end.
    return header.length == 0 && header.credits != 0 && header.id == 0;
  }
  // Who had to flush or open nothing has no byte of it to do so with.
  return (!large || header.length != 0) && (header.id != 0 || header.carries());
}

/// Whether only what `kind` names is set.
inline bool fields_fit(const MessageHeader& header) noexcept {
  const bool answer = header.kind == Kind::finished || header.kind == Kind::written;
  const bool has_memory = header.large() || header.kind == Kind::clear || header.asks();
  const bool large = has_memory || header.kind == Kind::written;
  const bool may_share =
      header.large() || (header.kind == Kind::finished && header.shared_key == 1);
  if ((header.shared_key != 0 && !may_share) || !length_and_id_fit(header, large)) return false;
  if (!has_memory && (header.address != 0 || header.remote_key != 0)) return false;
  const bool has_tag = header.tagged_kind() || header.kind == Kind::clear || header.asks();
  if (!has_tag && header.tag != 0) return false;
  // What no process exports by.
  if (header.asks() && header.tag == 0) return false;
  if (header.outcome != MessageHeader::Outcome::taken && header.kind != Kind::finished)
    return false;
  if (answer || header.kind == Kind::credit || header.kind == Kind::clear || header.asks())
    return header.flags == 0;
  return header.flags == 0 ||
         header.flags == (header.carries() ? MessageHeader::kInlined : MessageHeader::kReadable);
}

}  // namespace message_header_detail

/// Nothing when it is none, or what follows it is not as long as it says: `whole_bytes` came, which
/// begin with `bytes`. Whether ids and keys are good its receiver has to find out.
[[nodiscard]] inline std::optional<MessageHeader> decode_header(
    std::span<const std::byte, kMessageHeaderBytes> bytes, std::size_t whole_bytes) noexcept {
  constexpr std::size_t kOutcomeAt = offsetof(MessageHeader, outcome);
  constexpr std::size_t kPathAt = offsetof(MessageHeader, path);
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  // Before they become enumerators.
  if (kind < 1 || kind > 10 || std::to_integer<std::uint8_t>(bytes[kOutcomeAt]) > 4 ||
      (std::to_integer<std::uint8_t>(bytes[kPathAt]) & 15U) > kLastPath ||
      (std::to_integer<std::uint8_t>(bytes[kPathAt]) & 15U) == kNeverTold ||
      std::to_integer<std::uint8_t>(bytes[kPathAt]) >> 4U > kLastMemoryType) {
    return std::nullopt;
  }
  MessageHeader header;
  std::memcpy(static_cast<void*>(&header), bytes.data(), kMessageHeaderBytes);
  const std::uint64_t behind = header.carries() ? header.length : header.asks() ? kPlaceBytes : 0;
  if (whole_bytes - kMessageHeaderBytes != behind) return std::nullopt;
  if (header.length > ~std::uint64_t{0} - header.address) return std::nullopt;
  if (!message_header_detail::fields_fit(header)) return std::nullopt;
  return header;
}

/// The same of all that came.
[[nodiscard]] inline std::optional<MessageHeader> decode_header(
    std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kMessageHeaderBytes) return std::nullopt;
  return decode_header(bytes.first<kMessageHeaderBytes>(), bytes.size());
}

/// Where the exported memory lies that a put or get is of. `out` has room for kPlaceBytes.
inline void encode_place(std::uint64_t address, std::byte* out) noexcept {
  std::memcpy(out, &address, kPlaceBytes);
}

/// `bytes`: what decode_header() found to be a put or get.
[[nodiscard]] inline std::uint64_t decode_place(const std::byte* bytes) noexcept {
  std::uint64_t address = 0;
  std::memcpy(&address, bytes + kMessageHeaderBytes, kPlaceBytes);
  return address;
}

}  // namespace hbmwire::wire
