// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace hbmwire::emulation::tool {

/// A kernel's configuration with the options on that peer-to-peer DMA between NICs and accelerators
/// takes, whatever `text` says of them.
std::string with_peer_to_peer(std::string_view text);

/// The configuration of the running kernel, from /proc/config.gz, /boot or /lib/modules; empty
/// where none of them is readable.
std::string machine_kernel_config(const std::string& release);

/// Writes a file as gzip does. False without zlib, and when the file cannot be written.
bool write_gzip(const std::filesystem::path& file, const std::string& text);

}  // namespace hbmwire::emulation::tool
