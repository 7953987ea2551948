// SPDX-License-Identifier: MIT
#include "hbmwire/nic.hpp"

#include <bit>

#include "registration/region_state.hpp"

namespace hbmwire {

Result<Nic> Nic::open(std::string_view device) {
  HBMWIRE_TRY_ASSIGN(auto state, verbs::open_nic(device));
  return Nic(std::move(state));
}

const NicInfo& Nic::info() const noexcept { return state_->info; }

Result<Region> Nic::register_memory(const Allocation& allocation, Access access) const {
  auto region = std::make_shared<detail::RegionState>(state_, allocation);
  const std::uint64_t address = allocation.address();
  const std::uint64_t length = allocation.size_bytes();
  const auto info = allocation.domain().find(address, length);
  if (!info) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::register_memory,
                                          "the memory is no longer allocated",
                                          allocation.domain().device().name));
  }
  if (info->refusal) return tl::make_unexpected(*info->refusal);
  region->path = info->path;
  if (info->path != Path::zero_copy) {
    HBMWIRE_TRY_ASSIGN(
        region->mr, verbs::register_host(*state_, std::bit_cast<void*>(address), length, access));
    return Region(std::move(region));
  }
  HBMWIRE_TRY_ASSIGN(region->dmabuf, allocation.domain().export_dmabuf(address, length));
  const DmabufRange& range = region->dmabuf;
  if (!range.writable && (has(access, Access::local_write) || has(access, Access::remote_write))) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::register_memory,
                                          "the dma-buf is open for reading alone",
                                          info->device->name, Hint::dmabuf_read_only));
  }
  HBMWIRE_TRY_ASSIGN(region->mr,
                     verbs::register_dmabuf(*state_, range.fd->get(), range.offset_bytes,
                                            range.length_bytes, range.address(), access));
  return Region(std::move(region));
}

std::uint64_t Region::address() const noexcept { return state_->address(); }

std::uint64_t Region::size_bytes() const noexcept { return state_->allocation.size_bytes(); }

Path Region::path() const noexcept { return state_->path; }

int Region::dmabuf_fd() const noexcept { return state_->dmabuf.fd ? state_->dmabuf.fd->get() : -1; }

RemoteMemory Region::remote() const noexcept {
  return {address(), size_bytes(), state_->mr.get()->rkey};
}

const Allocation& Region::allocation() const noexcept { return state_->allocation; }

}  // namespace hbmwire
