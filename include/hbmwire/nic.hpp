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
  std::string pci_address;              ///< empty if sysfs does not tell
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
  std::string interface;   ///< the network interface that has this address; empty: none, or unknown
};

/// A port of an RDMA device, as it is now.
struct NicPort {
  /// As Nic::open() would give it. Without a usable port or GID, it has only what could be found
  /// out.
  NicInfo info;
  std::string state;  ///< "active", "down", "initialising", "armed"; empty: unknown
  std::uint64_t rate_bits_per_second = 0;  ///< of the link; 0: unknown
  std::vector<GidInfo> gids;               ///< without the empty entries
  std::optional<Error> refusal;            ///< why Nic::open() would not take this port
};

/// How many queue pairs an endpoint takes of its NIC (and of each rail), and how many a worker
/// takes of each NIC. NicLimits::max_peers() counts with them.
inline constexpr std::uint32_t kQueuePairsOfEndpoint = 2;
inline constexpr std::uint32_t kQueuePairsOfWorker = 2;

/// How many objects a NIC has for all processes together, ibv_query_device(3). The objects of its
/// driver count, too. 0: none, or not told.
struct NicLimits {
  std::uint32_t max_qp = 0;   ///< queue pairs
  std::uint32_t max_cq = 0;   ///< completion queues
  std::uint32_t max_cqe = 0;  ///< entries of a completion queue
  std::uint32_t max_mr = 0;   ///< memory regions
  std::uint32_t max_srq = 0;  ///< shared receive queues

  /// For how many peers the NIC has queue pairs, if one worker has all of them.
  [[nodiscard]] std::uint32_t max_peers() const noexcept {
    return max_qp < kQueuePairsOfWorker ? 0
                                        : (max_qp - kQueuePairsOfWorker) / kQueuePairsOfEndpoint;
  }
};

/// An RDMA device of this machine, as it is now.
struct NicDevice {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty if sysfs does not tell
  std::string firmware;     ///< version, as the device tells it
  int numa_node = -1;       ///< -1: unknown
  bool scale_up = false;    ///< a Gaudi's own NIC, which carries no dma-bufs and is never chosen
  std::optional<bool> imports_dmabufs;  ///< whether its driver supports that at all; empty: unknown
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
/// In a child by fork(2) it is the parent's, as is everything that was made with it. The child may
/// drop its copies, which does not affect the parent's; everything else fails (Errc::not_supported,
/// Hint::forked_nic). The child can open the device anew.
class HBMWIRE_API Nic {
 public:
  /// Opens a device. `device`: a name ("mlx5_0"), or a name with a port ("mlx5_0:2"). Empty: the
  /// first device with an active port that is not an accelerator's own scale-up NIC. `gid_index`:
  /// the entry of the port's GID table that the NIC uses. Without it the library chooses: RoCE v2
  /// before v1, routable before link-local. Errors: Stage::probe (no device, no such device),
  /// Stage::open (Hint::link_options: no such GID).
  static Result<Nic> open(std::string_view device = {}, std::optional<std::uint8_t> gid_index = {});

  /// The device and the port. Valid as long as a copy of this.
  [[nodiscard]] const NicInfo& info() const noexcept;

  /// Registers all of `allocation` on the path that its domain names (AddressInfo::path): device
  /// memory through its dma-buf, host memory by address. If a dma-buf cannot be registered, that is
  /// an error, unless the settings allow another path ("try"): then the registration goes by
  /// AddressInfo::otherwise, and Region::explain() says so. Device memory is never replaced by host
  /// memory. An allocation that is larger than the NIC's largest region is an error, and is not
  /// cut. Errors: bits beyond kAllAccess are Errc::invalid_argument; remote_atomic with a NIC
  /// without atomics is Hint::no_atomics; others, of the best path, are of Stage::export_dmabuf or
  /// Stage::register_memory.
  Result<Region> register_memory(const Allocation& allocation, Access access) const;

  /// The same with several NICs, all on one path and from one dma-buf: with all of them, or with
  /// none. Errors: as above, and Errc::invalid_argument (no NIC, or one twice).
  static Result<Region> register_memory(std::span<const Nic> nics, const Allocation& allocation,
                                        Access access);

 private:
  friend struct detail::Internals;

  explicit Nic(std::shared_ptr<detail::NicState> state) noexcept : state_(std::move(state)) {}

  std::shared_ptr<detail::NicState> state_;
};

}  // namespace hbmwire
