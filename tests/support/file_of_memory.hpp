// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace hbmwire::test {

/// The descriptor of the file that this process has mapped at `address`, which must be the
/// beginning of a mapping.
inline int file_of_memory(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (std::stoull(line, nullptr, 16) != address) continue;
    const std::string name = line.substr(line.find('/'));
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(each.path(), gone) == name)
        return std::stoi(each.path().filename());
    }
  }
  throw std::runtime_error("the memory is no file's");
}

}  // namespace hbmwire::test
