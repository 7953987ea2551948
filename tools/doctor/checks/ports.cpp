// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/ports.hpp"

#include <algorithm>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kEmptyGid = "0000:0000:0000:0000:0000:0000:0000:0000";

// The number of a port is one byte, and so is an index of a GID table.
constexpr std::uint64_t kMostIndices = 256;
// The most ports of one machine. An archive may claim any number, and checks compare each port with
// each other one.
constexpr std::size_t kMostPorts = 1024;

// Sorts by number, so that "10" comes after "9".
std::vector<std::string> indices_in(Names names) {
  std::erase_if(names.values, [](const std::string& name) {
    return leading_number(name).value_or(kMostIndices) >= kMostIndices;
  });
  std::ranges::sort(names.values, {}, [](const std::string& name) { return leading_number(name); });
  // leading_number() also takes "1a", "1b" and so on for 1, so there can be more names than
  // numbers.
  if (names.values.size() > kMostIndices) names.values.resize(kMostIndices);
  return names.values;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Port port_of(Evidence& machine, const Nic& nic, const std::string& number) {
  Port port{.nic = &nic,
            .number = number,
            .folder = "/sys/class/infiniband/" + nic.name + "/ports/" + number,
            .subject = nic.name + " port " + number,
            .state = {},
            .link_layer = {}};
  port.state = read_line(machine, port.folder + "/state");
  port.link_layer = read_line(machine, port.folder + "/link_layer");
  port.ethernet = port.link_layer.value == "Ethernet";
  port.active = port.state.value.starts_with("4:");
  return port;
}

}  // namespace

std::vector<Port> ports_of(Evidence& machine, const Hardware& hardware, const std::string& check,
                           std::vector<Finding>& findings) {
  std::vector<Port> ports;
  for (const Nic& nic : hardware.nics) {
    const std::string folder = "/sys/class/infiniband/" + nic.name + "/ports";
    const Names names = machine.folder(folder);
    if (is_unread(names.error))
      findings.push_back(unknown_for(check, nic.name, folder, names.error, "its ports"));
    for (const std::string& number : indices_in(names)) {
      if (ports.size() == kMostPorts) return ports;
      if (is_number(number)) ports.push_back(port_of(machine, nic, number));
    }
  }
  return ports;
}

std::vector<Port> active_ports(Evidence& machine, const Hardware& hardware,
                               const std::string& check, std::vector<Finding>& findings) {
  std::vector<Port> active;
  for (Port& port : ports_of(machine, hardware, check, findings)) {
    if (is_unread(port.state.error)) {
      findings.push_back(unknown_for(check, port.subject, port.folder + "/state", port.state.error,
                                     "whether the port is active"));
    } else if (port.active && port.link_layer.error != 0) {
      findings.push_back(unknown_for(check, port.subject, port.folder + "/link_layer",
                                     port.link_layer.error, "Ethernet or InfiniBand"));
    } else if (port.active) {
      active.push_back(std::move(port));
    }
  }
  return active;
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

Interface interface_of(Evidence& machine, const Port& port) {
  Interface interface;
  const Names indices = machine.folder(port.folder + "/gids");
  if (is_unread(indices.error)) interface.error = indices.error;
  for (const std::string& index : indices_in(indices)) {
    const Answer device = read_line(machine, port.folder + "/gid_attrs/ndevs/" + index);
    if (interface.error == 0 && is_unread(device.error)) interface.error = device.error;
    if (is_device_name(device.value)) return {.error = 0, .name = device.value};
  }
  if (port.nic->pci_address.empty()) return interface;
  const Names names = machine.folder(pci_path(port.nic->pci_address, "net"));
  if (is_unread(names.error)) interface.error = names.error;
  for (const std::string& name : names.values) {
    if (is_device_name(name)) return {.error = 0, .name = name};
  }
  return interface;
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
