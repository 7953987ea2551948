// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "hbmwire/nic.hpp"

#include "verbs/nic_state.hpp"

namespace hbmwire::detail {

/// A registration and all that must outlive it. Destroyed in reverse order: MR, dma-buf fd,
/// allocation, device: the order that an accelerator's driver insists on (it refuses to unmap what
/// is still exported).
struct RegionState {
  RegionState(std::shared_ptr<NicState> nic_of, Allocation allocation_of)
      : nic(std::move(nic_of)), allocation(std::move(allocation_of)) {}

  std::shared_ptr<NicState> nic;
  Allocation allocation;
  Path path = Path::host;
  DmabufRange dmabuf;  // .fd is null unless the path is zero_copy
  verbs::Mr mr;

  // ibv_mr::addr of a dma-buf region is the offset, so that addresses are the allocation's.
  [[nodiscard]] std::uint64_t address() const noexcept { return allocation.address(); }

  [[nodiscard]] std::uint32_t local_key() const noexcept { return mr.get()->lkey; }
};

}  // namespace hbmwire::detail
