// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"

namespace hbmwire {

/// The rights of a NIC at a region, beyond reading it for our own sends. A bit set.
enum class Access : std::uint8_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,  ///< fetch-add and compare-swap
};

[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

[[nodiscard]] constexpr bool has(Access set, Access bit) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(bit)) != 0;
}

/// Every bit that there is. A set with any other is refused wherever one is given
/// (Errc::invalid_argument).
inline constexpr Access kAllAccess =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

namespace detail {
struct Internals;
struct RegionState;
}  // namespace detail

class BlockTable;
class Nic;
struct RemoteMemory;  // hbmwire/low_level/connection.hpp
struct Slice;

/// A way on which a region could have been registered, and what came of it.
struct PathTried {
  Path path = Path::host;
  bool taken = false;
  std::string nic;               ///< where it failed; empty: not there, or taken
  std::optional<Error> refusal;  ///< why it was not taken
};

/// Memory that NICs may move: an allocation and its registrations, one a NIC, all on one path.
/// Copies share it; deregistered with the last.
class HBMWIRE_API Region {
 public:
  [[nodiscard]] std::uint64_t address() const noexcept;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;
  [[nodiscard]] Path path() const noexcept;
  [[nodiscard]] Access access() const noexcept;
  [[nodiscard]] int dmabuf_fd() const noexcept;  ///< -1 for host memory; owned by the region

  /// The NICs that it is registered with, in the order given. Throws std::bad_alloc.
  [[nodiscard]] std::vector<Nic> nics() const;

  /// For a peer that reaches it by the first NIC, or by `nic`; length 0 when it is not registered
  /// with that one. For all NICs at once, for a part, for less access, to be revoked: MemoryKey.
  [[nodiscard]] RemoteMemory remote() const noexcept;
  [[nodiscard]] RemoteMemory remote(const Nic& nic) const noexcept;

  /// `length` bytes from `offset_bytes` on; whether they are within it is checked when the slice is
  /// used. It points to this object.
  [[nodiscard]] Slice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept;

  /// All of it.
  [[nodiscard]] Slice slice() const noexcept;

  /// All of it as blocks of `block_bytes` each (blocks.hpp). Errors: as BlockTable::create().
  [[nodiscard]] Result<BlockTable> blocks(std::uint64_t block_bytes) const;

  [[nodiscard]] const Allocation& allocation() const noexcept;

  /// The memory itself, where the CPU reaches it by its address (MemoryType::host); elsewhere no
  /// bytes. The application itself must keep apart its own accesses and those of NICs.
  [[nodiscard]] std::span<std::byte> host_bytes() const noexcept;

  /// Host to memory of any type, and memory of any type to the host, from `offset_bytes` on: one
  /// Buffer::write() or read() of a Buffer that is made for it. A program that copies often keeps
  /// a Buffer: for device memory without a copy engine each has a queue pair. Errors: as
  /// Buffer::create() and those.
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                     const Wait& wait) const;
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait) const;

  /// Every path that there is, the best first: which one was taken, and why the others were not.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::vector<PathTried> explain() const;

 private:
  friend struct detail::Internals;

  explicit Region(std::shared_ptr<const detail::RegionState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<const detail::RegionState> state_;
};

/// A part of a region.
struct Slice {
  const Region* region = nullptr;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

inline Slice Region::slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept {
  return {this, offset_bytes, length};
}

inline Slice Region::slice() const noexcept { return {this, 0, size_bytes()}; }

}  // namespace hbmwire
