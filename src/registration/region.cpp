// SPDX-License-Identifier: MIT
#include <bit>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"

#include "registration/region_state.hpp"

namespace hbmwire {

namespace {

RemoteMemory remote_of(const detail::RegionState& region, const detail::Registration& of) noexcept {
  return {region.address(), region.allocation.size_bytes(), of.mr.get()->rkey};
}

}  // namespace

namespace detail {

Error not_writable(std::string_view subject) noexcept {
  return make_error(Errc::permission_denied, Stage::post,
                    "the region is not registered for local writing", subject,
                    Hint::not_for_local_writing);
}

}  // namespace detail

std::uint64_t Region::address() const noexcept { return state_->address(); }

std::uint64_t Region::size_bytes() const noexcept { return state_->allocation.size_bytes(); }

Path Region::path() const noexcept { return state_->path; }

Access Region::access() const noexcept { return state_->access; }

int Region::dmabuf_fd() const noexcept { return state_->dmabuf.fd ? state_->dmabuf.fd->get() : -1; }

std::vector<Nic> Region::nics() const {
  std::vector<Nic> nics;
  nics.reserve(state_->registrations.size());
  for (const auto& registration : state_->registrations)
    nics.push_back(handle_of<Nic>(registration.nic));
  return nics;
}

RemoteMemory Region::remote() const noexcept {
  if (state_->registrations.empty()) return {};
  return remote_of(*state_, state_->registrations.front());
}

RemoteMemory Region::remote(const Nic& nic) const noexcept {
  const detail::Registration* const registration = state_->with(state_of(nic));
  return registration == nullptr ? RemoteMemory{} : remote_of(*state_, *registration);
}

std::span<std::byte> Region::host_bytes() const noexcept {
  if (state_->allocation.domain().device().type != MemoryType::host) return {};
  return {std::bit_cast<std::byte*>(address()), size_bytes()};
}

const Allocation& Region::allocation() const noexcept { return state_->allocation; }

std::vector<PathTried> Region::explain() const { return state_->paths->tried; }

}  // namespace hbmwire
