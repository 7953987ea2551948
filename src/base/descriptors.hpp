// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

namespace hbmwire {

/// How many descriptors a search for devices has open at one time: libibverbs reads a folder, a
/// file below it and a netlink socket, loads a driver, and leaves out, without a word, each device
/// for which one of these fails.
inline constexpr int kDescriptorsToProbe = 8;

/// Whether this process can open that many more descriptors now, by trying. Errors: EMFILE, ENFILE.
/// Another thread may take them at once: a shortage that comes later is the failing call's to
/// report.
Result<void> check_descriptors(Stage stage, std::string_view subject) noexcept;

/// For the error of a vendor's library that says no more than that the operating system refused it
/// something: names the limit that this process has reached, if there is one. A library that finds
/// no device (Stage::probe) may say the same; later a limit that is set at all is the likely cause.
void name_reached_limit(Error& error) noexcept;

}  // namespace hbmwire
