// SPDX-License-Identifier: MIT
#include "emulation/nic/verbs/device_info.hpp"

#include <endian.h>

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace hbmwire::emulation::nic {
namespace {

/// The bytes of hexadecimal digits like "fe80:0000:...".
template <std::size_t N>
std::array<std::uint8_t, N> hex_bytes(const std::string& text) {
  std::array<std::uint8_t, N> bytes{};
  std::size_t digits = 0;
  for (const char c : text) {
    const char digit[] = {c, 0};
    char* end = nullptr;
    const unsigned long value = std::strtoul(digit, &end, 16);
    if (end == digit || digits == 2 * N) continue;
    bytes[digits / 2] =
        static_cast<std::uint8_t>((std::uint64_t{bytes[digits / 2]} << 4U | value) & 0xffU);
    ++digits;
  }
  return bytes;
}

PortInfo read_port(const std::filesystem::path& port) {
  PortInfo info;
  const std::uint32_t number = sysfs_number(port / "fabric_port", 0);
  if (number < kMaxFabricPorts) info.fabric_port = number;
  for (std::size_t index = 0; index < info.gids.size(); ++index)
    info.gids[index] = hex_bytes<16>(sysfs_line(port / "gids" / std::to_string(index)));
  info.lid = static_cast<std::uint16_t>(sysfs_number(port / "lid", 0));
  info.subnet_manager_lid = static_cast<std::uint16_t>(sysfs_number(port / "sm_lid", 0));
  return info;
}

}  // namespace

std::string sysfs_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::uint32_t sysfs_number(const std::filesystem::path& file, std::uint32_t otherwise) {
  const std::string line = sysfs_line(file);
  char* end = nullptr;
  const unsigned long value = std::strtoul(line.c_str(), &end, 0);
  return end == line.c_str() ? otherwise : static_cast<std::uint32_t>(value);
}

std::vector<std::uint32_t> DeviceInfo::fabric_ports() const {
  std::vector<std::uint32_t> numbers;
  for (const PortInfo& port : ports) numbers.push_back(port.fabric_port);
  return numbers;
}

Gid read_gid(const std::filesystem::path& file) { return hex_bytes<16>(sysfs_line(file)); }

std::uint64_t read_guid(const std::filesystem::path& file) {
  std::uint64_t guid = 0;
  for (const std::uint8_t byte : hex_bytes<8>(sysfs_line(file))) guid = guid << 8U | byte;
  return htobe64(guid);
}

DeviceInfo DeviceInfo::read(const std::filesystem::path& directory) {
  DeviceInfo info;
  info.directory = directory;
  info.firmware = sysfs_line(directory / "fw_ver");
  info.guid = read_guid(directory / "node_guid");
  info.vendor_id = sysfs_number(directory / "device/vendor", 0);
  info.part_id = sysfs_number(directory / "device/device", 0);
  info.revision = sysfs_number(directory / "hw_rev", 0);
  info.behaviour = read_behaviour(directory / "behaviour");
  for (unsigned number = 1;; ++number) {
    const std::filesystem::path port = directory / "ports" / std::to_string(number);
    std::error_code ignored;
    if (!std::filesystem::exists(port, ignored)) return info;
    info.ports.push_back(read_port(port));
  }
}

}  // namespace hbmwire::emulation::nic
