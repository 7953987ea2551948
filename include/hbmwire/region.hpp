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

/// The rights of a NIC at a region, beyond reading it for this end's sends. A bit set.
enum class Access : std::uint8_t {
  none = 0,           ///< reading by this end's own operations
  local_write = 1,    ///< writing by this end's own operations: receives and gets
  remote_write = 2,   ///< puts of a peer
  remote_read = 4,    ///< gets of a peer
  remote_atomic = 8,  ///< fetch-add and compare-swap of a peer
};

/// The rights of both sets.
[[nodiscard]] constexpr Access operator|(Access a, Access b) noexcept {
  return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// Whether `set` has at least one of the rights of `bit`.
[[nodiscard]] constexpr bool has(Access set, Access bit) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(bit)) != 0;
}

/// All rights. A set with any other bit is refused by every function that takes one
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

/// A path by which a region could have been registered.
struct PathTried {
  Path path = Path::host;        ///< the path
  bool taken = false;            ///< whether the region is registered by it
  std::string nic;               ///< the NIC where it failed; empty: no NIC has this path, or the
                                 ///< path was taken
  std::optional<Error> refusal;  ///< why it was not taken
};

/// Memory that NICs may move: an allocation and its registrations, one for each NIC, all on one
/// path. Copies share it; it is deregistered with the last copy.
class HBMWIRE_API Region {
 public:
  /// The device's address of its first byte; a pointer only for host memory.
  [[nodiscard]] std::uint64_t address() const noexcept;

  /// The length of the registered memory.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// How the NICs reach it.
  [[nodiscard]] Path path() const noexcept;

  /// The access that it was registered for.
  [[nodiscard]] Access access() const noexcept;

  /// The dma-buf that it was registered by; -1 for host memory. Owned by the region.
  [[nodiscard]] int dmabuf_fd() const noexcept;

  /// The NICs that it is registered with, in the order given. Throws std::bad_alloc.
  [[nodiscard]] std::vector<Nic> nics() const;

  /// The memory for a peer's Connection, which reaches it by the first NIC, or by `nic`. Its length
  /// is 0 if it is not registered with that NIC. Use MemoryKey for all NICs at once, for a part,
  /// for less access, or for memory that may be taken back.
  [[nodiscard]] RemoteMemory remote() const noexcept;
  [[nodiscard]] RemoteMemory remote(const Nic& nic) const noexcept;

  /// `length` bytes from `offset_bytes` on. The range is checked when the slice is used. The slice
  /// points to this object.
  [[nodiscard]] Slice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept;

  /// All of it.
  [[nodiscard]] Slice slice() const noexcept;

  /// All of it as blocks of `block_bytes` each (blocks.hpp). Errors: as BlockTable::create().
  [[nodiscard]] Result<BlockTable> blocks(std::uint64_t block_bytes) const;

  /// The memory that is registered. Valid as long as this object.
  [[nodiscard]] const Allocation& allocation() const noexcept;

  /// The memory itself, if the CPU reaches it by its address (MemoryType::host); otherwise no
  /// bytes. The application itself must keep its own accesses and those of NICs apart.
  [[nodiscard]] std::span<std::byte> host_bytes() const noexcept;

  /// Copies from the host to memory of any type, and from there to the host, from `offset_bytes`
  /// on. Each call makes a Buffer for one Buffer::write() or Buffer::read(). A program that copies
  /// often should keep a Buffer: for device memory without a copy engine each has a queue pair.
  /// Errors: as Buffer::create() and those functions.
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from,
                     const Wait& wait) const;
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait) const;

  /// Every path that exists, the best first: which one was taken, and why the others were not.
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
  const Region* region = nullptr;  ///< the region that it is a part of
  std::uint64_t offset_bytes = 0;  ///< from the region's first byte on
  std::uint64_t length_bytes = 0;  ///< may be 0
};

inline Slice Region::slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept {
  return {this, offset_bytes, length};
}

inline Slice Region::slice() const noexcept { return {this, 0, size_bytes()}; }

}  // namespace hbmwire
