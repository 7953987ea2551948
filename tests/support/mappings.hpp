// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace hbmwire::test {

/// The addresses at which a process (its id, or `self`) has mapped files of the library with this
/// length.
inline std::vector<std::uint64_t> mapped_files(std::uint64_t size_bytes,
                                               const std::string& process = "self") {
  std::ifstream maps("/proc/" + process + "/maps");
  std::vector<std::uint64_t> addresses;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:hbmwire") == std::string::npos) continue;
    const std::uint64_t first = std::stoull(line, nullptr, 16);
    const std::uint64_t behind = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (behind - first == size_bytes) addresses.push_back(first);
  }
  return addresses;
}

/// How many mappings mapped_files() finds.
inline std::size_t mappings_of(std::uint64_t size_bytes, const std::string& process = "self") {
  return mapped_files(size_bytes, process).size();
}

}  // namespace hbmwire::test
