// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"

namespace hbmwire {

/// An RDMA device's port, as chosen at Nic::open().
struct NicInfo {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty where sysfs does not tell
  std::string firmware;
  std::uint8_t port = 1;
  bool ethernet = true;  ///< RoCE; false: InfiniBand
  std::uint8_t gid_index = 0;
  std::string gid;              ///< text form
  std::string gid_type;         ///< "RoCE v2", "IB", ...
  std::uint32_t mtu_bytes = 0;  ///< active MTU of the port
  std::uint64_t max_message_bytes = 0;
};

/// One entry of a port's GID table.
struct GidInfo {
  std::uint8_t index = 0;
  std::string gid;        ///< text form
  std::string type;       ///< "RoCE v2", "RoCE v1", "IB"
  std::string interface;  ///< the network interface whose address it is; empty: none, or unknown
};

/// A port of an RDMA device, as it is now.
struct NicPort {
  /// As Nic::open() would have it; without a usable port or GID what could be found out.
  NicInfo info;
  std::string state;  ///< "active", "down", "initialising", "armed"; empty: unknown
  std::uint64_t rate_bits_per_second = 0;  ///< of the link; 0: unknown
  std::vector<GidInfo> gids;               ///< without the empty ones
  std::optional<Error> refusal;            ///< why Nic::open() would not take this port
};

/// An RDMA device of this machine, as it is now.
struct NicDevice {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty where sysfs does not tell
  std::string firmware;
  int numa_node = -1;     ///< -1: unknown
  bool scale_up = false;  ///< a Gaudi's own NIC, which carries no dma-bufs: never chosen
  std::optional<bool> imports_dmabufs;  ///< whether its driver can at all; empty: unknown
  std::vector<NicPort> ports;
  std::optional<Error> refusal;  ///< why it can't be opened
};

/// What a NIC may do with a region, beyond reading it for our own sends. A bit set.
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
struct NicState;
struct RegionState;
}  // namespace detail

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

  /// What a peer needs that comes by the first NIC, or by `nic`; length 0 when it is not registered
  /// with that one. For all NICs at once, for a part, for less access, to be revoked: MemoryKey.
  [[nodiscard]] RemoteMemory remote() const noexcept;
  [[nodiscard]] RemoteMemory remote(const Nic& nic) const noexcept;

  /// `length` bytes from `offset_bytes` on; whether they are within it is checked when the slice is
  /// used. It points to this object.
  [[nodiscard]] Slice slice(std::uint64_t offset_bytes, std::uint64_t length) const noexcept;

  /// All of it.
  [[nodiscard]] Slice slice() const noexcept;

  [[nodiscard]] const Allocation& allocation() const noexcept;

  /// The memory itself, where the CPU reaches it by its address (MemoryType::host); elsewhere no
  /// bytes. What a NIC writes there meanwhile is for the application to keep apart.
  [[nodiscard]] std::span<std::byte> host_bytes() const noexcept;

  /// Host to memory of any type, and memory of any type to the host, from `offset_bytes` on: one
  /// Buffer::write() or read() of a Buffer that is made for it. Who copies often keeps a Buffer,
  /// since for device memory without a copy engine each has a queue pair. Errors: as
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

/// An opened RDMA device. Copies share it. Thread-safe.
///
/// In a child by fork(2) it is the parent's, as is all that was made with it: the child may drop
/// its copies, which does nothing to the parent's, and everything else fails (Errc::not_supported,
/// Hint::forked_nic). The device can be opened anew there.
class HBMWIRE_API Nic {
 public:
  /// `device`: a name ("mlx5_0"), or with a port ("mlx5_0:2"); empty: the first with an active port
  /// that is not an accelerator's own scale-up NIC. The GID is chosen: RoCE v2 before v1, routable
  /// before link-local. Errors: Stage::probe (no device, no such device), Stage::open.
  static Result<Nic> open(std::string_view device = {});

  [[nodiscard]] const NicInfo& info() const noexcept;

  /// Registers all of `allocation` on the path that its domain names (AddressInfo::path): device
  /// memory through its dma-buf, host memory by address. A dma-buf that can't be registered is an
  /// error, or where the settings allow it ("try") the registration goes by the path that the
  /// domain names besides (AddressInfo::otherwise), and Region::explain() says so; device memory
  /// never becomes one of host memory. Nothing is cut off: larger than the NIC's largest region is
  /// an error, bits beyond kAllAccess are Errc::invalid_argument, remote_atomic without atomics is
  /// Hint::no_atomics. Others, of the best path: Stage::export_dmabuf, Stage::register_memory.
  Result<Region> register_memory(const Allocation& allocation, Access access) const;

  /// The same with several NICs, all on one path and from one dma-buf: with each, or with none.
  /// Errors: as above, and Errc::invalid_argument (no NIC, or one twice).
  static Result<Region> register_memory(std::span<const Nic> nics, const Allocation& allocation,
                                        Access access);

 private:
  friend struct detail::Internals;

  explicit Nic(std::shared_ptr<detail::NicState> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<detail::NicState> state_;
};

}  // namespace hbmwire
