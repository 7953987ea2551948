// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

#include "counters/live_registration.hpp"
#include "memory/kept_memory.hpp"
#include "registration/path_record.hpp"
#include "registration/region_share.hpp"
#include "verbs/nic_state.hpp"

namespace hbmwire::detail {

/// A region's registration with one NIC. The memory region is destroyed before its device.
struct Registration {
  std::shared_ptr<NicState> nic;
  verbs::Mr mr;
};

/// Whether memory that is registered for `access` may be written to, by peers or by operations of
/// this side. Remote write and atomics require local write (ibv_reg_mr(3)).
[[nodiscard]] constexpr bool writes(Access access) noexcept {
  return has(access, Access::local_write) || has(access, Access::remote_write) ||
         has(access, Access::remote_atomic);
}

/// The registrations of a piece of memory, and all that must outlive them. Members are destroyed in
/// reverse order: MRs, dma-buf descriptor, allocation with its device. An accelerator's driver
/// insists on this order: it refuses to unmap exported memory.
struct RegionState {
  RegionState(Allocation allocation_of, Access access_of)
      : access(access_of),
        allocation(std::move(allocation_of)),
        begin(allocation.address()),
        size_bytes(allocation.size_bytes()),
        kept(is_kept(allocation)) {}

  // Members that the data path reads lie together: NIC, path, address and key.
  std::uint32_t nic = 0;  // NicState::number of the first one; 0: no NIC
  Path path = Path::host;
  Access access;
  std::uint16_t record = 0;  // PathRecord::number
  Allocation allocation;
  std::uint64_t begin;
  std::uint64_t size_bytes;
  std::uint32_t first_local_key = 0;
  bool kept;                          // is_kept(): the CPU may access it at any time
  const PathRecord* paths = nullptr;  // set when registered: the path and its reasons
  std::vector<PathTried> refused;     // paths better than the one taken
  DmabufRange dmabuf;                 // .fd is null unless the path is zero_copy
  // In the order of the NICs that were asked for; empty if the path is staged.
  std::vector<Registration> registrations;
  counters::LiveRegistration counted;
  mutable RegionShare share;

  // The allocation's address, because ibv_mr::addr of a dma-buf region is only an offset.
  [[nodiscard]] std::uint64_t address() const noexcept { return begin; }

  /// Call it once `path` is known.
  void explain_by(const PathRecord& told) noexcept {
    paths = &told;
    record = told.number;
    if (!registrations.empty()) counted = counters::LiveRegistration(size_bytes);
  }

  void add(Registration registration) {
    if (registrations.empty()) {
      nic = registration.nic->number;
      first_local_key = registration.mr.get()->lkey;
    }
    registrations.push_back(std::move(registration));
  }

  /// The registration with NIC `of`; null if there is none. Most regions have one NIC, and most
  /// connections use the region's first NIC.
  [[nodiscard]] const Registration* with(const NicState& of) const noexcept {
    for (const Registration& registration : registrations) {
      if (registration.nic.get() == &of) return &registration;
    }
    return nullptr;
  }

  /// The local key (lkey) for NIC `of`; no value if the region is not registered with it.
  [[nodiscard]] std::optional<std::uint32_t> local_key(const NicState& of) const noexcept {
    if (nic == of.number) [[likely]]
      return first_local_key;
    const Registration* const registration = with(of);
    if (registration == nullptr) return std::nullopt;
    return registration->mr.get()->lkey;
  }
};

/// The error of a region that is not registered for local writing: Stage::post,
/// Errc::permission_denied.
[[nodiscard]] Error not_writable(std::string_view subject) noexcept;

/// Checks the slice that an operation writes to before it is posted. A NIC would find the mistake
/// only later, and break the connection; the CPU and engines would never find it. Errors:
/// not_writable().
[[nodiscard]] inline Result<void> check_writable(const Slice& into, std::string_view subject) {
  if (into.length_bytes == 0 || writes(state_of(*into.region).access)) [[likely]]
    return {};
  return tl::make_unexpected(not_writable(subject));
}

}  // namespace hbmwire::detail
