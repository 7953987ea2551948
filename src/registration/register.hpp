// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::registration {

/// Errors: Errc::invalid_argument (no NIC, or one twice), Errc::not_supported (a NIC of the parent,
/// after fork(2)).
Result<void> check_nics(std::span<const Nic> nics);

/// Errors: Errc::invalid_argument (bits beyond kAllAccess).
Result<void> check_access(Access access);

/// Whether [address, address + length_bytes) of `memory` is usable for `access`. For regions that
/// no NIC checks: pages of the application must be mapped, long enough and writable, and a dma-buf
/// must be open for writing. Errors (Stage::register_memory): Errc::invalid_argument,
/// Errc::permission_denied.
Result<void> check_memory(const Allocation& memory, std::uint64_t address,
                          std::uint64_t length_bytes, Access access);

/// Registers all of `memory` with `nics` (at least one) on the path that its domain names, else on
/// the domain's other path (AddressInfo::otherwise). Registers with all NICs or with none. `info`
/// is the domain's current answer for the memory. Errors: Stage::export_dmabuf,
/// Stage::register_memory, those of the best path.
Result<std::shared_ptr<detail::RegionState>> register_with(std::span<const Nic> nics,
                                                           const Allocation& memory,
                                                           const AddressInfo& info, Access access);

/// Whether memory that failed to register with `error` can be staged: the NIC's driver cannot reach
/// it, and its device has a copy engine.
[[nodiscard]] bool can_be_staged(const MemoryDomain& domain, const Error& error) noexcept;

/// A region without a registration, which only its device's engine reaches. `path` is the better
/// path, which `nic` refused with `error`; an empty `nic` means that no NIC refused it. `instead`
/// is the path to take: staged, or copy if the policy excludes that. If the region is open to
/// peers, this process moves the bytes for them. Errors: those of check_access().
Result<std::shared_ptr<detail::RegionState>> stage(const Allocation& memory, Path path,
                                                   const Error& error, std::string_view nic,
                                                   Access access, Path instead);

/// A region without any NIC, because of `why`. For host memory, and for memory that a device's
/// engine copies. Errors: Errc::not_supported, with `why` (the device has no engine); those of
/// check_access() and check_memory().
Result<std::shared_ptr<detail::RegionState>> without_nic(const Allocation& memory, const Error& why,
                                                         Access access);

}  // namespace hbmwire::registration
