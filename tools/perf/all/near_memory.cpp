// SPDX-License-Identifier: MIT
#include "tools/perf/all/near_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/topology.hpp"

#include "tools/common/hardware.hpp"

namespace hbmwire::tools::perf::all {
namespace {

struct Port {
  const NicDevice* nic;
  const NicPort* port;

  [[nodiscard]] std::string name() const {
    return fmt::format("{}:{}", nic->name, port->info.port);
  }
};

std::vector<Port> usable_ports(const std::vector<NicDevice>& nics, const Selection& selection) {
  std::vector<Port> ports;
  for (const NicDevice& nic : nics) {
    if (nic.scale_up || nic.refusal) continue;
    for (const NicPort& port : nic.ports) {
      const Port found{&nic, &port};
      const auto is_meant = [&](const std::string& name) {
        return name == nic.name || name == found.name();
      };
      if (port.refusal ||
          (!selection.nics.empty() && std::ranges::none_of(selection.nics, is_meant)))
        continue;
      ports.push_back(found);
    }
  }
  return ports;
}

std::vector<DeviceInfo> chosen_devices(const Context& context, const Selection& selection) {
  std::vector<DeviceInfo> devices;
  for (const MemoryProbe& probe : context.memory()) {
    if (probe.type == MemoryType::host ||
        std::ranges::find(kAllocatedTypes, probe.type) == kAllocatedTypes.end())
      continue;
    for (std::size_t i = 0; i < probe.devices.size(); ++i) {
      if (selection.has(probe.devices[i], i)) devices.push_back(probe.devices[i]);
    }
  }
  return devices;
}

FoundEnd end_of(const Context& context, const std::vector<NicDevice>& nics, const Port& port,
                const DeviceInfo& device) {
  const Way way = way_between(context, nics, port.port->info, device);
  FoundEnd found;
  found.type = device.type;
  found.pci_address = device.pci_address;
  found.end.nic = port.name();
  found.end.memory = to_string(device.type);
  found.end.device = device.type == MemoryType::host ? "" : device.name;
  found.end.distance = way.distance;
  found.end.link_bytes_per_second =
      static_cast<double>(port.port->rate_bits_per_second) / kBitsPerByte;
  return found;
}

/// The place in `ports` of the port that is nearest to a device; 0 if sysfs does not tell.
std::size_t nearest_port(const Context& context, const std::vector<NicDevice>& nics,
                         const std::vector<Port>& ports, const DeviceInfo& device) {
  for (const NearNic& near : context.nics_near(device.pci_address, nics)) {
    const auto at =
        std::ranges::find_if(ports, [&](const Port& port) { return port.nic->name == near.name; });
    if (at != ports.end()) return static_cast<std::size_t>(at - ports.begin());
  }
  return 0;
}

}  // namespace

Outcome<std::vector<FoundEnd>> find_ends(const Selection& selection) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const auto nics, context.nics());
  const std::vector<Port> ports = usable_ports(nics, selection);
  if (ports.empty()) {
    return fail(selection.nics.empty()
                    ? "probe: no RDMA NIC has a port that is up; see `hbmwire doctor`"
                    : "probe: no NIC of -d has a port that is up; `hbmwire info` lists the NICs",
                kExitUnavailable);
  }
  std::vector<std::vector<DeviceInfo>> near(ports.size());
  for (const DeviceInfo& device : chosen_devices(context, selection))
    near[nearest_port(context, nics, ports, device)].push_back(device);
  const auto is_host = [](const MemoryChoice& memory) { return memory.type == MemoryType::host; };
  const bool with_host =
      selection.memories.empty() || std::ranges::any_of(selection.memories, is_host);
  DeviceInfo host;
  host.type = MemoryType::host;
  std::vector<FoundEnd> ends;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    for (const DeviceInfo& device : near[i])
      ends.push_back(end_of(context, nics, ports[i], device));
    // A NIC that has a device gets host memory, too, only if the user chose the memories.
    const bool gets_host = near[i].empty() || !selection.memories.empty();
    if (with_host && gets_host) ends.push_back(end_of(context, nics, ports[i], host));
  }
  if (!ends.empty()) return ends;
  return fail("probe: no memory of --memory is there; `hbmwire info` lists the accelerators",
              kExitUnavailable);
}

}  // namespace hbmwire::tools::perf::all
