// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

#include "memory/host/address_range.hpp"

namespace hbmwire::memory::host {

/// Whether this process can read all of `range`, and, if `writes`, write it. A NIC finds that out
/// when it pins the pages; this check is for registrations without a NIC. It changes no contents.
/// It loads no page except the last one of each mapping, because a file may end before that page.
///
/// It reads /proc/self/maps. If that is missing, it uses mincore(2), and checks the access only at
/// the first and the last page. It takes some microseconds, and 0.3 us for each mapping at lower
/// addresses.
///
/// Errors (Stage::register_memory): Errc::invalid_argument (a part is not mapped, cannot be read,
/// or lies beyond the end of its file); Errc::permission_denied (a part cannot be written).
Result<void> check_pages(AddressRange range, bool writes, std::string_view subject);

}  // namespace hbmwire::memory::host
