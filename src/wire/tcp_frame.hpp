// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace hbmwire::wire {

inline constexpr std::uint8_t kTcpFrameVersion = 1;
inline constexpr std::size_t kTcpFrameBytes = 32;
/// Of what follows a frame that moves memory: what is longer goes in several, so that word between
/// the ends is never far behind, and what has to be sent to the end is little.
inline constexpr std::uint32_t kMaxTcpPayload = 256U << 10U;
/// Of a message: its header, and as much as may come unasked (EndpointOptions::eager_bytes).
inline constexpr std::uint32_t kMaxTcpMessage = (1U << 20U) + 64;
inline constexpr std::uint32_t kMaxTcpControl = 2048;
/// Of one READ: an end answers no longer one.
inline constexpr std::uint32_t kMaxTcpRead = 1U << 30U;

/// What precedes everything on an endpoint's TCP connection, once the handshake is over
/// (docs/endpoint-protocol.md). Little-endian. Fields that a kind does not name are zero.
struct TcpFrame {
  enum class Kind : std::uint8_t {
    control = 1,  ///< a message of the control lane follows
    message,      ///< a message of the data lane follows
    write,        ///< `number`: bytes for `address` of `key` follow; with kLast it is to be
                  ///< acknowledged; with kImmediate, which the last one has, `value` comes besides
    read,         ///< `number`: `value` bytes from `address` of `key` are asked for
    fetch_add,  ///< `number`: of 64 bits at `address` of `key`; 16 bytes follow: what to add, and 0
    compare_swap,  ///< the same; what is expected, and what to put there
    data,          ///< of `number`, which asked for it; the last ones have kLast
    done,          ///< all requests up to `number` are over
    failed,        ///< `number` is not carried out, nor is any after it: `status`
    idle,          ///< nothing: the peer's machine answers, and its process needs not
  };

  /// Why a request was not carried out.
  enum class Status : std::uint8_t {
    none = 0,
    denied = 1,     ///< no such key, or it does not allow this
    outside = 2,    ///< not within the key's memory
    broken = 3,     ///< the device's engine failed
    unwelcome = 4,  ///< no place for an immediate or a message
  };

  static constexpr std::uint8_t kLast = 1;
  static constexpr std::uint8_t kImmediate = 2;
  static constexpr std::uint8_t kWindow = 4;  ///< `key` is one that the receiver told in a message

  std::uint8_t version = kTcpFrameVersion;
  Kind kind = Kind::idle;
  std::uint8_t flags = 0;
  Status status = Status::none;
  std::uint32_t length = 0;  ///< bytes that follow
  std::uint32_t number = 0;
  std::uint32_t value = 0;
  std::uint64_t address = 0;
  std::uint64_t key = 0;

  [[nodiscard]] bool has(std::uint8_t flag) const noexcept { return (flags & flag) != 0; }

  /// Asks for something that `done`, `data` or `failed` answers.
  [[nodiscard]] bool is_request() const noexcept {
    return kind == Kind::write || kind == Kind::read || is_atomic();
  }

  [[nodiscard]] bool is_atomic() const noexcept {
    return kind == Kind::fetch_add || kind == Kind::compare_swap;
  }

  bool operator==(const TcpFrame&) const = default;
};

static_assert(sizeof(TcpFrame) == kTcpFrameBytes && std::endian::native == std::endian::little);

/// What follows fetch_add and compare_swap.
struct TcpOperands {
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

inline void encode(const TcpFrame& frame, std::byte* out) noexcept {
  std::memcpy(out, &frame, kTcpFrameBytes);
}

namespace tcp_frame_detail {

using Kind = TcpFrame::Kind;

/// How many bytes may follow, and whether none may.
inline bool length_fits(const TcpFrame& frame) noexcept {
  switch (frame.kind) {
    case Kind::control:
      return frame.length != 0 && frame.length <= kMaxTcpControl;
    case Kind::message:
      return frame.length != 0 && frame.length <= kMaxTcpMessage;
    case Kind::write:
      // One of nothing is the whole of its request: what has to go on brings some.
      return frame.length <= kMaxTcpPayload && (frame.length != 0 || frame.has(TcpFrame::kLast));
    case Kind::data:
      return frame.length != 0 && frame.length <= kMaxTcpPayload;
    case Kind::fetch_add:
    case Kind::compare_swap:
      return frame.length == sizeof(TcpOperands);
    case Kind::read:
    case Kind::done:
    case Kind::failed:
    case Kind::idle:
      return frame.length == 0;
  }
  return false;
}

inline std::uint8_t flags_of(Kind kind) noexcept {
  if (kind == Kind::write) return TcpFrame::kLast | TcpFrame::kImmediate | TcpFrame::kWindow;
  return kind == Kind::data ? TcpFrame::kLast : 0;
}

/// Whether only what `kind` names is set.
inline bool fields_fit(const TcpFrame& frame) noexcept {
  const bool numbered = frame.is_request() || frame.kind == Kind::data ||
                        frame.kind == Kind::done || frame.kind == Kind::failed;
  if ((frame.flags & ~unsigned{flags_of(frame.kind)}) != 0) return false;
  if (frame.has(TcpFrame::kImmediate) && !frame.has(TcpFrame::kLast)) return false;
  if ((frame.status != TcpFrame::Status::none) != (frame.kind == Kind::failed)) return false;
  if (!numbered && frame.number != 0) return false;
  if (!frame.is_request() && (frame.address != 0 || frame.key != 0)) return false;
  if (frame.kind == Kind::read) return frame.value != 0 && frame.value <= kMaxTcpRead;
  return frame.value == 0 || frame.has(TcpFrame::kImmediate);
}

}  // namespace tcp_frame_detail

/// Nothing when it is none. Whether keys and numbers are good its receiver has to find out.
[[nodiscard]] inline std::optional<TcpFrame> decode_tcp_frame(
    std::span<const std::byte, kTcpFrameBytes> bytes) noexcept {
  const auto kind = std::to_integer<std::uint8_t>(bytes[offsetof(TcpFrame, kind)]);
  const auto status = std::to_integer<std::uint8_t>(bytes[offsetof(TcpFrame, status)]);
  // Before they become enumerators.
  if (std::to_integer<std::uint8_t>(bytes[0]) != kTcpFrameVersion || kind < 1 || kind > 10 ||
      status > 4) {
    return std::nullopt;
  }
  TcpFrame frame;
  std::memcpy(static_cast<void*>(&frame), bytes.data(), kTcpFrameBytes);
  if (!tcp_frame_detail::length_fits(frame) || !tcp_frame_detail::fields_fit(frame))
    return std::nullopt;
  const std::uint64_t touched = frame.kind == TcpFrame::Kind::read ? frame.value : frame.length;
  if (frame.address > ~std::uint64_t{0} - touched) return std::nullopt;
  return frame;
}

}  // namespace hbmwire::wire
