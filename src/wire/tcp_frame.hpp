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
/// The most bytes after a frame that moves memory. Longer payloads are split into several frames,
/// so that a control message never waits long, and so that little is left to send when a frame is
/// cut short.
inline constexpr std::uint32_t kMaxTcpPayload = 256U << 10U;
/// The most bytes of a message: as many as may come without being asked for
/// (EndpointOptions::eager_bytes), and 64 in which its header fits.
inline constexpr std::uint32_t kMaxTcpMessage = (1U << 20U) + 64;
inline constexpr std::uint32_t kMaxTcpControl = 2048;
/// The most bytes of one READ that an end answers.
inline constexpr std::uint32_t kMaxTcpRead = 1U << 30U;

/// The header of everything on an endpoint's TCP connection after the handshake
/// (docs/endpoint-protocol.md). Little-endian. Fields that a kind does not name are zero.
struct TcpFrame {
  enum class Kind : std::uint8_t {
    control = 1,  ///< a message of the control lane follows
    message,      ///< a message of the data lane follows
    write,        ///< request `number`: bytes for `address` of `key` follow; the last frame has
                  ///< kLast, which asks for a confirmation, and may have kImmediate with `value`
    read,         ///< request `number`: asks for `value` bytes from `address` of `key`
    fetch_add,  ///< request `number`: 64 bits at `address` of `key`; follow: 8 bytes to add, 8 of 0
    compare_swap,  ///< as fetch_add; follow: the expected value, the new value
    data,          ///< bytes that `number` asked for; the last frame has kLast
    done,          ///< all requests up to `number` have ended
    failed,        ///< `number` is not executed, nor is any later request; `status` says why
    idle,          ///< no content: the peer's machine acknowledges it, its process need not
  };

  /// Why a request was not executed.
  enum class Status : std::uint8_t {
    none = 0,
    denied = 1,     ///< no such key, or it does not allow this
    outside = 2,    ///< not within the key's memory
    broken = 3,     ///< the device's engine failed
    unwelcome = 4,  ///< no place for an immediate or a message
  };

  static constexpr std::uint8_t kLast = 1;
  static constexpr std::uint8_t kImmediate = 2;
  static constexpr std::uint8_t kWindow = 4;  ///< `key` came in a message from the receiver

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

  /// Whether it is answered by `done`, `data` or `failed`.
  [[nodiscard]] bool is_request() const noexcept {
    return kind == Kind::write || kind == Kind::read || is_atomic();
  }

  [[nodiscard]] bool is_atomic() const noexcept {
    return kind == Kind::fetch_add || kind == Kind::compare_swap;
  }

  bool operator==(const TcpFrame&) const = default;
};

inline constexpr std::uint8_t kLastTcpKind = 10;   // TcpFrame::Kind::idle
inline constexpr std::uint8_t kLastTcpStatus = 4;  // TcpFrame::Status::unwelcome

static_assert(sizeof(TcpFrame) == kTcpFrameBytes && std::endian::native == std::endian::little);

/// The bytes after fetch_add and compare_swap.
struct TcpOperands {
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

inline void encode(const TcpFrame& frame, std::byte* out) noexcept {
  std::memcpy(out, &frame, kTcpFrameBytes);
}

namespace tcp_frame_detail {

using Kind = TcpFrame::Kind;

/// Whether this many bytes may follow.
inline bool length_fits(const TcpFrame& frame) noexcept {
  switch (frame.kind) {
    case Kind::control:
      return frame.length != 0 && frame.length <= kMaxTcpControl;
    case Kind::message:
      return frame.length != 0 && frame.length <= kMaxTcpMessage;
    case Kind::write:
      // Only a WRITE of no bytes at all has an empty frame: every other frame must bring some
      // bytes.
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

/// The flags that frames of this kind may have.
inline std::uint8_t flags_of(Kind kind) noexcept {
  if (kind == Kind::write) return TcpFrame::kLast | TcpFrame::kImmediate | TcpFrame::kWindow;
  return kind == Kind::data ? TcpFrame::kLast : 0;
}

/// Whether only fields that the kind names are set.
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

/// No value if the bytes are not a frame. The receiver must check keys and numbers itself.
[[nodiscard]] inline std::optional<TcpFrame> decode_tcp_frame(
    std::span<const std::byte, kTcpFrameBytes> bytes) noexcept {
  const auto kind = std::to_integer<std::uint8_t>(bytes[offsetof(TcpFrame, kind)]);
  const auto status = std::to_integer<std::uint8_t>(bytes[offsetof(TcpFrame, status)]);
  // Checked before the numbers become enumerators.
  if (std::to_integer<std::uint8_t>(bytes[0]) != kTcpFrameVersion || kind < 1 ||
      kind > kLastTcpKind || status > kLastTcpStatus) {
    return std::nullopt;
  }
  TcpFrame frame;
  std::memcpy(static_cast<void*>(&frame), bytes.data(), kTcpFrameBytes);
  if (!tcp_frame_detail::length_fits(frame) || !tcp_frame_detail::fields_fit(frame))
    return std::nullopt;
  // The range must not wrap around.
  const std::uint64_t touched = frame.kind == TcpFrame::Kind::read ? frame.value : frame.length;
  if (frame.address > ~std::uint64_t{0} - touched) return std::nullopt;
  return frame;
}

}  // namespace hbmwire::wire
