// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace hbmwire::emulation::tool {

/// Turns on the options of a kernel configuration that peer-to-peer DMA between NICs and
/// accelerators needs, and returns the new text.
std::string with_peer_to_peer(std::string_view text);

/// The configuration of the running kernel, from /proc/config.gz, /boot or /lib/modules. Empty if
/// none of them is readable.
std::string machine_kernel_config(const std::string& release);

/// Writes a file as gzip does. Returns false without zlib, or if the file cannot be written.
bool write_gzip(const std::filesystem::path& file, const std::string& text);

}  // namespace hbmwire::emulation::tool
