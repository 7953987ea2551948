// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "hbmwire/nic.hpp"

#include "registration/region_state.hpp"

namespace hbmwire {

namespace {

// The best first.
constexpr std::array kPaths{Path::zero_copy, Path::peer_memory, Path::host};

/// Why `path`, on which nothing was tried, is not the one of memory that goes by `taken`.
const char* why_not(Path path, Path taken) noexcept {
  switch (path) {
    case Path::zero_copy:
      return taken == Path::host ? "host memory has no dma-buf, it is registered by address"
                                 : "the memory's domain names no dma-buf of it";
    case Path::peer_memory:
      return taken == Path::host ? "host memory needs nobody to translate its addresses"
                                 : "the dma-buf is the better way, and it was taken";
    case Path::host:
      return "the memory is a device's, whose addresses are nobody's host memory";
  }
  return "";
}

RemoteMemory remote_of(const detail::RegionState& region, const detail::Registration& of) noexcept {
  return {region.address(), region.allocation.size_bytes(), of.mr.get()->rkey};
}

}  // namespace

std::uint64_t Region::address() const noexcept { return state_->address(); }

std::uint64_t Region::size_bytes() const noexcept { return state_->allocation.size_bytes(); }

Path Region::path() const noexcept { return state_->path; }

Access Region::access() const noexcept { return state_->access; }

int Region::dmabuf_fd() const noexcept { return state_->dmabuf.fd ? state_->dmabuf.fd->get() : -1; }

std::vector<Nic> Region::nics() const {
  std::vector<Nic> nics;
  nics.reserve(state_->registrations.size());
  for (const auto& registration : state_->registrations) nics.emplace_back(registration.nic);
  return nics;
}

RemoteMemory Region::remote() const noexcept {
  return remote_of(*state_, state_->registrations.front());
}

RemoteMemory Region::remote(const Nic& nic) const noexcept {
  const detail::Registration* const registration = state_->with(nic.state());
  return registration == nullptr ? RemoteMemory{} : remote_of(*state_, *registration);
}

const Allocation& Region::allocation() const noexcept { return state_->allocation; }

std::vector<PathTried> Region::explain() const {
  std::vector<PathTried> paths;
  for (const Path path : kPaths) {
    const auto refused = std::ranges::find(state_->refused, path, &PathTried::path);
    if (refused != state_->refused.end()) {
      paths.push_back(*refused);
    } else if (path == state_->path) {
      paths.push_back({.path = path, .taken = true, .nic = {}, .refusal = {}});
    } else {
      paths.push_back({.path = path,
                       .taken = false,
                       .nic = {},
                       .refusal = make_error(Errc::not_supported, Stage::register_memory,
                                             why_not(path, state_->path),
                                             state_->allocation.domain().device().name)});
    }
  }
  return paths;
}

}  // namespace hbmwire
