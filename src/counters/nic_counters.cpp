// SPDX-License-Identifier: MIT
#include <algorithm>
#include <filesystem>
#include <utility>

#include "hbmwire/counters.hpp"

#include "base/setting_numbers.hpp"
#include "base/sysfs.hpp"

namespace hbmwire {

namespace fs = std::filesystem;
using setting_numbers::parse_count;
using setting_numbers::parse_up_to;

std::vector<NicCounter> nic_counters(std::string_view nic) {
  std::vector<NicCounter> all;
  std::error_code failure;
  const fs::path ports = sysfs_root() / "class/infiniband" / nic / "ports";
  for (const auto& port : fs::directory_iterator(ports, failure)) {
    std::uint64_t number = 0;
    constexpr std::uint64_t kMostPort = 255;  // NicCounter::port has 8 bits
    if (!parse_up_to(port.path().filename().native(), kMostPort, number)) continue;
    for (const char* const folder : {"counters", "hw_counters"}) {
      std::error_code none;
      for (const auto& file : fs::directory_iterator(port.path() / folder, none)) {
        std::uint64_t value = 0;
        if (!parse_count(read_line(file.path()), value)) continue;
        all.push_back({.nic = std::string(nic),
                       .port = static_cast<std::uint8_t>(number),
                       .name = file.path().filename(),
                       .value = value});
      }
    }
  }
  std::ranges::sort(all, {},
                    [](const NicCounter& each) { return std::pair(each.port, each.name); });
  return all;
}

}  // namespace hbmwire
