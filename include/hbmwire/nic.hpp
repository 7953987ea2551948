// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/region.hpp"

namespace hbmwire {

/// An RDMA device's port, as chosen at Nic::open().
struct NicInfo {
  std::string name;                     ///< "mlx5_0"
  std::string pci_address;              ///< empty where sysfs does not tell
  std::string firmware;                 ///< version, as the device tells it
  std::uint8_t port = 1;                ///< its number
  bool ethernet = true;                 ///< RoCE; false: InfiniBand
  std::uint8_t gid_index = 0;           ///< entry of the GID table
  std::string gid;                      ///< text form
  std::string gid_type;                 ///< "RoCE v2", "IB", ...
  std::uint32_t mtu_bytes = 0;          ///< active MTU of the port
  std::uint64_t max_message_bytes = 0;  ///< the longest message of the port
};

/// One entry of a port's GID table.
struct GidInfo {
  std::uint8_t index = 0;  ///< in the table
  std::string gid;         ///< text form
  std::string type;        ///< "RoCE v2", "RoCE v1", "IB"
  std::string interface;   ///< the network interface whose address it is; empty: none, or unknown
};

/// A port of an RDMA device, as it is now.
struct NicPort {
  /// As Nic::open() would give it; without a usable port or GID only the part that could be found
  /// out.
  NicInfo info;
  std::string state;  ///< "active", "down", "initialising", "armed"; empty: unknown
  std::uint64_t rate_bits_per_second = 0;  ///< of the link; 0: unknown
  std::vector<GidInfo> gids;               ///< without the empty ones
  std::optional<Error> refusal;            ///< why Nic::open() would not take this port
};

/// Queue pairs that an endpoint takes of its NIC (of each rail one), and that a worker takes of
/// each NIC. NicLimits::max_peers() counts with them.
inline constexpr std::uint32_t kQueuePairsOfEndpoint = 2;
inline constexpr std::uint32_t kQueuePairsOfWorker = 2;

/// How many objects a NIC has for all processes together, ibv_query_device(3); what its driver
/// takes for itself counts, too. 0: none, or not told.
struct NicLimits {
  std::uint32_t max_qp = 0;   ///< queue pairs
  std::uint32_t max_cq = 0;   ///< completion queues
  std::uint32_t max_cqe = 0;  ///< entries of a completion queue
  std::uint32_t max_mr = 0;   ///< memory regions
  std::uint32_t max_srq = 0;  ///< shared receive queues

  /// For how many peers it has queue pairs, if one worker has them all.
  [[nodiscard]] std::uint32_t max_peers() const noexcept {
    return max_qp < kQueuePairsOfWorker ? 0
                                        : (max_qp - kQueuePairsOfWorker) / kQueuePairsOfEndpoint;
  }
};

/// An RDMA device of this machine, as it is now.
struct NicDevice {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty where sysfs does not tell
  std::string firmware;     ///< version, as the device tells it
  int numa_node = -1;       ///< -1: unknown
  bool scale_up = false;    ///< a Gaudi's own NIC, which carries no dma-bufs: never chosen
  std::optional<bool> imports_dmabufs;  ///< whether its driver can at all; empty: unknown
  NicLimits limits;                     ///< of all processes together
  std::vector<NicPort> ports;           ///< by their numbers
  std::optional<Error> refusal;         ///< why it can't be opened
};

namespace detail {
struct Internals;
struct NicState;
}  // namespace detail

/// An opened RDMA device. Copies share it. Thread-safe.
///
/// In a child by fork(2) it is the parent's, as is all that was made with it: the child may drop
/// its copies, which does nothing to the parent's, and everything else fails (Errc::not_supported,
/// Hint::forked_nic). The device can be opened anew there.
class HBMWIRE_API Nic {
 public:
  /// `device`: a name ("mlx5_0"), or with a port ("mlx5_0:2"); empty: the first with an active port
  /// that is not an accelerator's own scale-up NIC. `gid_index`: which entry of the port's GID
  /// table is the NIC's; without it is chosen: RoCE v2 before v1, routable before link-local.
  /// Errors: Stage::probe (no device, no such device), Stage::open (Hint::link_options: no such
  /// GID).
  static Result<Nic> open(std::string_view device = {}, std::optional<std::uint8_t> gid_index = {});

  /// The device and the port. Valid as long as a copy of this.
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
