// SPDX-License-Identifier: MIT
#include <utility>

#include "hbmwire/memory.hpp"

namespace hbmwire {

namespace detail {

/// Gives its memory back when the last Allocation that shares it goes.
struct AllocationState {
  AllocationState(std::shared_ptr<MemoryDomain> domain_of, std::uint64_t address_of,
                  std::uint64_t size_of, bool is_ours)
      : domain(std::move(domain_of)), address(address_of), size_bytes(size_of), ours(is_ours) {}

  AllocationState(const AllocationState&) = delete;
  AllocationState& operator=(const AllocationState&) = delete;

  ~AllocationState() {
    if (ours) domain->release(address);
  }

  std::shared_ptr<MemoryDomain> domain;
  std::uint64_t address;
  std::uint64_t size_bytes;
  bool ours;  // to give back
};

}  // namespace detail

std::string_view to_string(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::host:
      return "host";
    case MemoryType::gaudi:
      return "gaudi";
    case MemoryType::cuda:
      return "cuda";
    case MemoryType::rocm:
      return "rocm";
    case MemoryType::dmabuf:
      return "dmabuf";
  }
  return "?";
}

std::string_view to_string(Path path) noexcept {
  switch (path) {
    case Path::host:
      return "host memory";
    case Path::zero_copy:
      return "zero-copy dma-buf";
    case Path::peer_memory:
      return "peer memory";
  }
  return "?";
}

Allocation::Allocation(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                       std::uint64_t size_bytes)
    : state_(std::make_shared<detail::AllocationState>(std::move(domain), address, size_bytes,
                                                       true)) {}

Allocation Allocation::borrowed(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                                std::uint64_t size_bytes) {
  return Allocation(
      std::make_shared<detail::AllocationState>(std::move(domain), address, size_bytes, false));
}

std::uint64_t Allocation::address() const noexcept { return state_->address; }

std::uint64_t Allocation::size_bytes() const noexcept { return state_->size_bytes; }

MemoryDomain& Allocation::domain() const noexcept { return *state_->domain; }

}  // namespace hbmwire
