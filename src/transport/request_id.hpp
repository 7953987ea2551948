// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::transport {

/// The id of a request is all that its completion returns. It is a pointer, with the type of its
/// target in the low bits.
enum class Tag : std::uint8_t {
  posted,    ///< Posted: the last request of an operation, or of one piece
  part,      ///< Posted: a request before the last; completes only if it fails
  received,  ///< ReceiveBuffer: a receive
  control,   ///< ControlBuffer: a message on the control lane
  rail,      ///< RailPiece: a request on a further NIC's lane
  moved,     ///< LoopbackMover: the last request of a job
  moving,    ///< LoopbackMover: one before the last; completes only if it fails
};

inline constexpr std::uint64_t kTagMask = 7;

template <class T>
[[nodiscard]] inline std::uint64_t to_id(T* pointer, Tag tag) noexcept {
  static_assert(alignof(T) > kTagMask);
  return reinterpret_cast<std::uint64_t>(pointer) | static_cast<std::uint64_t>(tag);
}

[[nodiscard]] inline Tag tag_of(std::uint64_t id) noexcept {
  return static_cast<Tag>(id & kTagMask);
}

template <class T>
[[nodiscard]] inline T* pointer_of(std::uint64_t id) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a completion returns only a request's id.
  return reinterpret_cast<T*>(id & ~kTagMask);
}

}  // namespace hbmwire::transport
