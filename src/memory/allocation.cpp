// SPDX-License-Identifier: MIT
#include <utility>

#include "hbmwire/memory.hpp"

namespace hbmwire {

namespace detail {

/// Frees its memory when the last Allocation that shares it goes.
struct AllocationState {
  AllocationState(std::shared_ptr<MemoryDomain> domain_of, std::uint64_t address_of,
                  std::uint64_t size_of)
      : domain(std::move(domain_of)), address(address_of), size_bytes(size_of) {}

  AllocationState(const AllocationState&) = delete;
  AllocationState& operator=(const AllocationState&) = delete;

  ~AllocationState() { domain->release(address); }

  std::shared_ptr<MemoryDomain> domain;
  std::uint64_t address;
  std::uint64_t size_bytes;
};

}  // namespace detail

std::string_view to_string(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::host:
      return "host";
    case MemoryType::gaudi:
      return "gaudi";
  }
  return "?";
}

Allocation::Allocation(std::shared_ptr<MemoryDomain> domain, std::uint64_t address,
                       std::uint64_t size_bytes)
    : state_(std::make_shared<detail::AllocationState>(std::move(domain), address, size_bytes)) {}

std::uint64_t Allocation::address() const noexcept { return state_->address; }

std::uint64_t Allocation::size_bytes() const noexcept { return state_->size_bytes; }

MemoryDomain& Allocation::domain() const noexcept { return *state_->domain; }

}  // namespace hbmwire
