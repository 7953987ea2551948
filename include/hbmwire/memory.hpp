// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hbmwire/export.hpp"

namespace hbmwire {

/// The types of memory that the library knows.
enum class MemoryType : std::uint8_t {
  host,    ///< memory that the CPU can read and write
  gaudi,   ///< HBM of an Intel Gaudi card
  cuda,    ///< an NVIDIA GPU's memory
  rocm,    ///< an AMD GPU's memory
  dmabuf,  ///< memory behind a dma-buf that the application brought
};

/// Each MemoryType once, in their order.
inline constexpr std::array kMemoryTypes{MemoryType::host, MemoryType::gaudi, MemoryType::cuda,
                                         MemoryType::rocm, MemoryType::dmabuf};

/// "host", "gaudi", "cuda", "rocm", "dmabuf".
[[nodiscard]] HBMWIRE_API std::string_view to_string(MemoryType type) noexcept;

/// The way that bytes take: how a NIC reaches a region, and how a transfer went (docs/paths.md).
enum class Path : std::uint8_t {
  host,         ///< host memory, registered by address
  zero_copy,    ///< device memory through its dma-buf
  peer_memory,  ///< device memory, registered by address; a vendor's kernel module translates the
                ///< address
  /// Only for transfers: zero_copy between two ends of one node.
  nic_loopback,
  staged,  ///< through host memory, if the NIC does not reach the device (ContextOptions::paths)
  /// A transfer within a process that a device's engine carried. A region has this path if the
  /// policy excludes every other.
  copy,
  /// Over a TCP connection, through host memory at both ends, if at least one end has no NIC.
  tcp,
  /// A transfer between two processes of a node that an engine of the peer's process carried. The
  /// peer opens this end's memory for that (IpcHandle). A region has this path if the policy
  /// excludes every other.
  ipc,
  /// Only for transfers: host memory of two processes of a node, copied by this end's CPU. No NIC
  /// takes part.
  shared_memory,
};

/// "host memory", "zero-copy dma-buf" and so on: the words that users see.
[[nodiscard]] HBMWIRE_API std::string_view to_string(Path path) noexcept;

/// A Path's name, spelt as its enumerator: "zero_copy". Settings, metrics and traces use it.
[[nodiscard]] HBMWIRE_API std::string_view name_of(Path path) noexcept;

class MemoryDomain;

namespace detail {
struct AllocationState;
struct Internals;
}  // namespace detail

/// Memory of a domain. Copies share it. Memory that the library allocated, adopted or imported is
/// given back with the last copy. Everything made of it (Region, Buffer) holds a copy, so that
/// registered memory is never freed.
class HBMWIRE_API Allocation {
 public:
  /// For implementers of MemoryDomain. `address` will be given back to `domain->release()`, even if
  /// this throws std::bad_alloc, which MemoryDomain::allocate() turns into an Error.
  Allocation(std::shared_ptr<MemoryDomain> domain, std::uint64_t address, std::uint64_t size_bytes);

  /// Memory that belongs to the application, which must keep it until the last copy has gone.
  static Allocation borrowed(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                             std::uint64_t size_bytes);

  /// The device's address; a pointer only for host memory.
  [[nodiscard]] std::uint64_t address() const noexcept;

  /// The length, as it was asked for.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// The domain that the memory is of.
  [[nodiscard]] MemoryDomain& domain() const noexcept;

 private:
  friend struct detail::Internals;

  explicit Allocation(std::shared_ptr<detail::AllocationState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::AllocationState> state_;
};

/// How host memory is allocated.
struct HostMemoryOptions {
  /// The size of its pages.
  enum class Pages : std::uint8_t {
    normal,   ///< ordinary pages
    huge_2m,  ///< 2 MiB pages of the kernel's pool (vm.nr_hugepages)
    huge_1g,  ///< 1 GiB pages of that pool
  } pages = Pages::normal;
  /// Allocates a memfd, which other processes of this user can map: for Path::shared_memory and
  /// Path::ipc.
  bool shared = false;
  int numa_node = -1;  ///< bound to this node (mbind(2)); -1: the kernel chooses

  auto operator<=>(const HostMemoryOptions&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Which device of a type to open, and how. Options for another type than the one that is opened
/// are refused (Errc::invalid_argument, Stage::configure), never ignored.
struct MemoryOptions {
  /// A PCI address ("0000:33:00.0"), or an index ("1"). Empty: the first one that is free.
  std::string device;

  /// Gaudi: the library that drives the card. `automatic` takes SynapseAI if it is installed, since
  /// it has the copy engine, or else hl-thunk. A card that SynapseAI already owns in this process
  /// is borrowed. If libhl-thunk.so is not installed, `hl_thunk` means the kernel driver's own
  /// calls.
  enum class Owner : std::uint8_t { automatic, synapse, hl_thunk } owner = Owner::automatic;

  /// For MemoryType::host.
  HostMemoryOptions host = {};

  bool operator==(const MemoryOptions&) const = default;
};

}  // namespace hbmwire
