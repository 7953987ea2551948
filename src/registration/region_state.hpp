// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/nic.hpp"

#include "registration/path_record.hpp"
#include "verbs/nic_state.hpp"

namespace hbmwire::detail {

/// A region with one NIC. The memory region goes before its device.
struct Registration {
  std::shared_ptr<NicState> nic;
  verbs::Mr mr;
};

/// The registrations of a piece of memory and all that must outlive them. Destroyed in reverse
/// order: MRs, dma-buf fd, allocation with its device: the order that an accelerator's driver
/// insists on (it refuses to unmap what is still exported).
struct alignas(64) RegionState {
  RegionState(Allocation allocation_of, Access access_of)
      : allocation(std::move(allocation_of)),
        begin(allocation.address()),
        size_bytes(allocation.size_bytes()),
        access(access_of) {}

  Allocation allocation;
  // What the data path asks for lies together: where it is, and with which key the first NIC has
  // it.
  std::uint64_t begin;
  std::uint64_t size_bytes;
  const NicState* first_nic = nullptr;
  std::uint32_t first_local_key = 0;
  Access access;
  Path path = Path::host;
  const PathRecord* paths = nullptr;  // of a region that is registered: how, and why
  std::vector<PathTried> refused;     // paths better than the one taken
  DmabufRange dmabuf;                 // .fd is null unless the path is zero_copy
  // In the order of the NICs asked for; none where the path is staged.
  std::vector<Registration> registrations;

  // ibv_mr::addr of a dma-buf region is the offset, so that addresses are the allocation's.
  [[nodiscard]] std::uint64_t address() const noexcept { return begin; }

  void add(Registration registration) {
    if (registrations.empty()) {
      first_nic = registration.nic.get();
      first_local_key = registration.mr.get()->lkey;
    }
    registrations.push_back(std::move(registration));
  }

  /// With `nic`; null: it is not registered with that one. Most regions have one NIC, most
  /// connections the region's first.
  [[nodiscard]] const Registration* with(const NicState& nic) const noexcept {
    for (const Registration& registration : registrations) {
      if (registration.nic.get() == &nic) return &registration;
    }
    return nullptr;
  }

  /// The lkey of `nic`; nothing when it is not registered with that one.
  [[nodiscard]] std::optional<std::uint32_t> local_key(const NicState& nic) const noexcept {
    const Registration* const registration = with(nic);
    if (registration == nullptr) return std::nullopt;
    return registration->mr.get()->lkey;
  }
};

}  // namespace hbmwire::detail
