// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// Whether all of `range` is memory that this process can read, and write where `writes` is set:
/// what a NIC finds out when it pins the pages, for registrations without one. Changes no
/// contents, and brings in no page but the last one of each mapping, whose file may end before it.
///
/// By /proc/self/maps. Where there is none it is by mincore(2), and access by the first and the
/// last page alone. Takes some microseconds, and 0.3 us for each mapping at lower addresses.
///
/// Errors, of Stage::register_memory: Errc::invalid_argument: a part is not mapped, can't be read,
/// or lies beyond the end of its file; Errc::permission_denied: a part can't be written.
Result<void> check_pages(AddressRange range, bool writes, std::string_view subject);

}  // namespace hbmwire::memory::host
