// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// The descriptors that a search for devices has open at one time. libibverbs opens a folder, a
/// file below it and a netlink socket, and loads a driver. If one of these fails it silently leaves
/// out the device.
inline constexpr int kDescriptorsToProbe = 8;

/// Whether this process can open kDescriptorsToProbe more descriptors now, which it tries. Errors:
/// EMFILE, ENFILE. Another thread may take them at once; the call that fails then reports that
/// shortage.
Result<void> check_descriptors(Stage stage, std::string_view subject) noexcept;

/// For an error of a vendor's library that says only that the operating system refused something:
/// names the limit that this process has reached, if any. A library that finds no device
/// (Stage::probe) may fail for the same reason. In later stages, a limit that is set at all is the
/// likely cause.
void name_reached_limit(Error& error) noexcept;

}  // namespace hbmwire
