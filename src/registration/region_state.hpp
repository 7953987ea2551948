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

/// A region with one NIC. The memory region goes before its device.
struct Registration {
  std::shared_ptr<NicState> nic;
  verbs::Mr mr;
};

/// Whether peers or this side's own operations write to memory that is registered for `access`:
/// remote write and atomics bring local write with them (ibv_reg_mr(3)).
[[nodiscard]] constexpr bool writes(Access access) noexcept {
  return has(access, Access::local_write) || has(access, Access::remote_write) ||
         has(access, Access::remote_atomic);
}

/// The registrations of a piece of memory and all that must outlive them. Destroyed in reverse
/// order: MRs, dma-buf fd, allocation with its device: the order that an accelerator's driver
/// insists on (it refuses to unmap what is still exported).
struct RegionState {
  RegionState(Allocation allocation_of, Access access_of)
      : access(access_of),
        allocation(std::move(allocation_of)),
        begin(allocation.address()),
        size_bytes(allocation.size_bytes()),
        kept(is_kept(allocation)) {}

  // The data path's lies together: by which NIC and path it is reached, where, and by which key.
  std::uint32_t nic = 0;  // NicState::number of the first one, 0: of none
  Path path = Path::host;
  Access access;
  std::uint16_t record = 0;  // PathRecord::number
  Allocation allocation;
  std::uint64_t begin;
  std::uint64_t size_bytes;
  std::uint32_t first_local_key = 0;
  bool kept;                          // is_kept(): the CPU may touch it as it likes
  const PathRecord* paths = nullptr;  // of a region that is registered: how, and why
  std::vector<PathTried> refused;     // paths better than the one taken
  DmabufRange dmabuf;                 // .fd is null unless the path is zero_copy
  // In the order of the NICs asked for; none where the path is staged.
  std::vector<Registration> registrations;
  counters::LiveRegistration counted;
  mutable RegionShare share;

  // ibv_mr::addr of a dma-buf region is the offset, so that addresses are the allocation's.
  [[nodiscard]] std::uint64_t address() const noexcept { return begin; }

  /// Once `path` is known.
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

  /// With `of`; null: it is not registered with that one. Most regions have one NIC, most
  /// connections the region's first.
  [[nodiscard]] const Registration* with(const NicState& of) const noexcept {
    for (const Registration& registration : registrations) {
      if (registration.nic.get() == &of) return &registration;
    }
    return nullptr;
  }

  /// The lkey of `of`; nothing when it is not registered with that one.
  [[nodiscard]] std::optional<std::uint32_t> local_key(const NicState& of) const noexcept {
    if (nic == of.number) [[likely]]
      return first_local_key;
    const Registration* const registration = with(of);
    if (registration == nullptr) return std::nullopt;
    return registration->mr.get()->lkey;
  }
};

/// That the region is not registered for local writing. Stage::post, Errc::permission_denied.
[[nodiscard]] Error not_writable(std::string_view subject) noexcept;

/// Looks at the slice that an operation writes to, before it is posted: the NIC would find out
/// later, and end the connection; the CPU and engines never do. Errors: not_writable().
[[nodiscard]] inline Result<void> check_writable(const Slice& into, std::string_view subject) {
  if (into.length_bytes == 0 || writes(state_of(*into.region).access)) [[likely]]
    return {};
  return tl::make_unexpected(not_writable(subject));
}

}  // namespace hbmwire::detail
