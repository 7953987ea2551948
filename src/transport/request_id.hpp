// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace hbmwire::transport {

/// A request's id, which is all that comes back with its completion: a pointer, and in its low bits
/// whose.
enum class Tag : std::uint8_t {
  posted,    ///< Posted: the last request of an operation, or of a piece of one
  part,      ///< Posted: one before the last; completes only when it fails
  received,  ///< ReceiveBuffer, of either lane
  control,   ///< ControlBuffer: what the control lane sends
  rail,      ///< RailPiece: a request of a lane on a further NIC
  moved,     ///< LoopbackMover: the last request of a job
  moving,    ///< one before the last; completes only when it fails
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
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a request's id is all that comes back.
  return reinterpret_cast<T*>(id & ~kTagMask);
}

}  // namespace hbmwire::transport
