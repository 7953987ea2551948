// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>

namespace hbmwire::emulation::nic {

/// <fabric>/nic.shm as it is mapped here.
struct StateFile {
  int fd = -1;
  std::byte* base = nullptr;
};

/// Opens and maps the file, and makes it if need be. The fabric's lock (flock on <fabric>/lock) is
/// held. 0 or an errno; then what is opened already is in `file`, for close_state().
int open_state(const std::filesystem::path& fabric, StateFile& file);

void close_state(StateFile& file);

}  // namespace hbmwire::emulation::nic
