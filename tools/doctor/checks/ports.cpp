// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/ports.hpp"

#include <algorithm>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kEmptyGid = "0000:0000:0000:0000:0000:0000:0000:0000";

// A port's number is a byte, and so is an index of a GID table.
constexpr std::uint64_t kMostIndices = 256;
// Of a machine: an archive may claim any number, and checks compare each with each.
constexpr std::size_t kMostPorts = 1024;

// "10" after "9".
std::vector<std::string> indices_in(Names names) {
  std::erase_if(names.values, [](const std::string& name) {
    return leading_number(name).value_or(kMostIndices) >= kMostIndices;
  });
  std::ranges::sort(names.values, {}, [](const std::string& name) { return leading_number(name); });
  if (names.values.size() > kMostIndices) names.values.resize(kMostIndices);  // "1a", "1b", ...
  return names.values;
}

}  // namespace

std::vector<Port> ports_of(Evidence& machine, const Hardware& hardware) {
  std::vector<Port> ports;
  for (const Nic& nic : hardware.nics) {
    const std::string folder = "/sys/class/infiniband/" + nic.name + "/ports";
    for (const std::string& number : indices_in(machine.folder(folder))) {
      if (ports.size() == kMostPorts) return ports;
      Port port{.nic = &nic,
                .number = number,
                .folder = folder + "/" + number,
                .subject = nic.name + " port " + number,
                .state = {}};
      port.state = read_line(machine, port.folder + "/state");
      port.ethernet = read_line(machine, port.folder + "/link_layer").value == "Ethernet";
      port.active = port.state.value.starts_with("4:");
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

std::vector<Gid> gids_of(Evidence& machine, const Port& port, int& error) {
  std::vector<Gid> gids;
  error = 0;
  const Names names = machine.folder(port.folder + "/gids");
  if (names.error != 0) error = names.error;
  for (const std::string& index : indices_in(names)) {
    const Answer address = read_line(machine, port.folder + "/gids/" + index);
    if (address.error != 0 && error == 0) error = address.error;
    if (address.error != 0 || address.value == kEmptyGid) continue;
    const Answer type = read_line(machine, port.folder + "/gid_attrs/types/" + index);
    if (type.error != 0 && error == 0) error = type.error;
    gids.push_back(
        {.index = index,
         .address = address.value,
         .type = type.value,
         .interface = read_line(machine, port.folder + "/gid_attrs/ndevs/" + index).value});
  }
  return gids;
}

std::string interface_of(Evidence& machine, const Port& port) {
  int error = 0;
  for (const Gid& gid : gids_of(machine, port, error)) {
    if (!gid.interface.empty()) return gid.interface;
  }
  if (port.nic->pci_address.empty()) return {};
  const Names names = machine.folder(pci_path(port.nic->pci_address, "net"));
  return names.values.empty() ? std::string() : names.values.front();
}

const Json& told_of(const Port& port) {
  static const Json nothing;
  const auto number = leading_number(port.number);
  std::uint64_t looked_at = 0;
  for (const Json& told : port.nic->ports) {
    if (looked_at++ == kMostIndices) break;
    if (number && number_at(told, "port") == number) return told;
  }
  return nothing;
}

}  // namespace hbmwire::tools::doctor
