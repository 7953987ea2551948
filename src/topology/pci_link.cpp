// SPDX-License-Identifier: MIT
#include "topology/pci_link.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "base/sysfs.hpp"

namespace hbmwire {

// The same efficiencies as in the kernel (PCIE_SPEED2MBS_ENC in drivers/pci/pci.h).
double PciLink::bytes_per_second() const noexcept {
  constexpr double kLastWith8b10b = 5;
  constexpr double kLastWith128b130b = 32;
  constexpr double kBitsPerByte = 8;
  double efficiency = 1;
  if (gigatransfers_per_second <= kLastWith8b10b) {
    efficiency = 8.0 / 10;
  } else if (gigatransfers_per_second <= kLastWith128b130b) {
    efficiency = 128.0 / 130;
  }
  return gigatransfers_per_second * 1e9 * efficiency * lanes / kBitsPerByte;
}

namespace topology {
namespace {

namespace fs = std::filesystem;

template <class T>
T leading_number(const std::string& text) {
  T number{};
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() ? number : T{};
}

// "dddd:bb:dd.f". The directory of a host bridge ("pci0000:00") is not one.
bool is_pci_address(const std::string& name) {
  return std::ranges::count(name, ':') == 2 && name.find('.') != std::string::npos;
}

// The directories of the device and of all bridges above it, the topmost first.
std::vector<fs::path> way_down_to(const fs::path& root, std::string_view pci_address) {
  std::vector<fs::path> way;
  if (pci_address.empty() || !is_pci_address(std::string(pci_address))) return way;
  std::error_code problem;
  const fs::path real = fs::canonical(root / "bus/pci/devices" / pci_address, problem);
  if (problem) return way;
  fs::path at;
  for (const fs::path& part : real) {
    at /= part;
    if (is_pci_address(part.string())) way.push_back(at);
  }
  return way;
}

// Reads texts such as "16.0 GT/s PCIe" and "16". Without a link they are "Unknown", 0 or 255. Both
// ends of a link describe it; a root port describes the link below it.
std::optional<PciLink> link_of(const fs::path& device) {
  constexpr unsigned kWidest = 32;
  PciLink link{
      .gigatransfers_per_second = leading_number<double>(read_line(device / "current_link_speed")),
      .lanes = leading_number<unsigned>(read_line(device / "current_link_width")),
      .at = device.filename().string()};
  if (link.gigatransfers_per_second <= 0 || link.lanes == 0 || link.lanes > kWidest)
    return std::nullopt;
  return link;
}

}  // namespace

std::optional<PciLink> narrowest_link(const fs::path& root, std::string_view pci_address,
                                      std::string_view towards) {
  const auto way = way_down_to(root, pci_address);
  const auto target = way_down_to(root, towards);
  const auto branch = std::mismatch(way.begin(), way.end(), target.begin(), target.end()).first;
  std::optional<PciLink> narrowest;
  // From the device upwards, so that among equal links the device's own is named.
  for (auto device = way.end(); device != branch;) {
    const auto link = link_of(*--device);
    if (link && (!narrowest || link->bytes_per_second() < narrowest->bytes_per_second()))
      narrowest = link;
  }
  return narrowest;
}

}  // namespace topology

}  // namespace hbmwire
