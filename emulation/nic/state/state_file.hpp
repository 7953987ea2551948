// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>

namespace hbmwire::emulation::nic {

/// <fabric>/nic.shm as this process has mapped it.
struct StateFile {
  int fd = -1;
  std::byte* base = nullptr;
};

/// Opens and maps the file, and creates it if necessary. The caller holds the fabric's lock (flock
/// on <fabric>/lock). Returns 0 or an errno. After an error `file` holds what is open already, for
/// close_state().
int open_state(const std::filesystem::path& fabric, StateFile& file);

void close_state(StateFile& file);

}  // namespace hbmwire::emulation::nic
