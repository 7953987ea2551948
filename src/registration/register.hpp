// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "hbmwire/memory.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire::registration {

/// Errors: Errc::invalid_argument (none, or one twice), Errc::not_supported (a parent's, after
/// fork(2)).
Result<void> check_nics(std::span<const Nic> nics);

/// Errors: Errc::invalid_argument (bits beyond kAllAccess).
Result<void> check_access(Access access);

/// Registers all of `memory` with each of `nics` (at least one) on the path that its domain names,
/// else on the other one that it allows (AddressInfo::otherwise); with each of them or with none.
/// `info` is what the domain says of it now. Errors: Stage::export_dmabuf, Stage::register_memory,
/// of the best path.
Result<std::shared_ptr<detail::RegionState>> register_with(std::span<const Nic> nics,
                                                           const Allocation& memory,
                                                           const AddressInfo& info, Access access);

}  // namespace hbmwire::registration
