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

/// Errors: Errc::invalid_argument (none, or one twice), Errc::not_supported (a parent's, after
/// fork(2)).
Result<void> check_nics(std::span<const Nic> nics);

/// Errors: Errc::invalid_argument (bits beyond kAllAccess).
Result<void> check_access(Access access);

/// Whether [address, address + length_bytes) of `memory` is there for `access`, where no NIC looks
/// at it: pages of the application's that are mapped, long enough and writable, and a dma-buf that
/// is open for writing. Errors, of Stage::register_memory: Errc::invalid_argument,
/// Errc::permission_denied.
Result<void> check_memory(const Allocation& memory, std::uint64_t address,
                          std::uint64_t length_bytes, Access access);

/// Registers all of `memory` with each of `nics` (at least one) on the path that its domain names,
/// else on the other one that it allows (AddressInfo::otherwise); with each of them or with none.
/// `info` is what the domain says of it now. Errors: Stage::export_dmabuf, Stage::register_memory,
/// of the best path.
Result<std::shared_ptr<detail::RegionState>> register_with(std::span<const Nic> nics,
                                                           const Allocation& memory,
                                                           const AddressInfo& info, Access access);

/// Whether memory that failed to be registered with `error` can be staged: no NIC's driver reaches
/// it, and its device has an engine.
[[nodiscard]] bool can_be_staged(const MemoryDomain& domain, const Error& error) noexcept;

/// A region without a registration, which its device's engine reaches alone: `path`, the better
/// one, was refused with `error`, by `nic` (or by nobody), and it goes by `instead`: staged, or
/// copy where that is excluded. What is open of it to peers this process moves for them. Errors: of
/// check_access().
Result<std::shared_ptr<detail::RegionState>> stage(const Allocation& memory, Path path,
                                                   const Error& error, std::string_view nic,
                                                   Access access, Path instead);

/// A region that no NIC has, since there is none: `why`. Of host memory, and of what a device's
/// engine copies. Errors: Errc::not_supported, with `why`: the device has no engine; of
/// check_access() and check_memory().
Result<std::shared_ptr<detail::RegionState>> without_nic(const Allocation& memory, const Error& why,
                                                         Access access);

}  // namespace hbmwire::registration
