// SPDX-License-Identifier: MIT
#include "tools/info/text.hpp"

#include "hbmwire/settings.hpp"
#include "hbmwire/topology.hpp"

#include "tools/common/text.hpp"

namespace hbmwire::tools {
namespace {

// The reason why something is missing, without the remedy.
std::string reason(const Error& error) {
  const std::string_view subject = error.subject;
  std::string text = subject.empty() ? "" : fmt::format("{}: ", subject);
  text += error.call;
  if (const std::string number = number_text(error); !number.empty()) text += ": " + number;
  return text;
}

std::string_view fabric_name(const NicInfo& info) { return info.ethernet ? "RoCE" : "InfiniBand"; }

std::string port_text(const NicPort& port) {
  if (port.state.empty()) return "unknown state";
  return fmt::format("{}, {}, {}", port.state, fabric_name(port.info),
                     link_rate_text(port.rate_bits_per_second));
}

std::string nic_summary(const NicDevice& nic) {
  if (nic.refusal) return fmt::format("{} ({})", nic.name, reason(*nic.refusal));
  if (nic.scale_up) return fmt::format("{} (a Gaudi's own, not used)", nic.name);
  std::string ports;
  for (const NicPort& port : nic.ports)
    ports += fmt::format("{}{}", ports.empty() ? "" : "; ", port_text(port));
  return fmt::format("{} ({}; up to {} peers)", nic.name, ports, nic.limits.max_peers());
}

std::string_view missing_word(const MemoryView& memory) {
  return memory.devices.empty() ? "missing" : "not usable";
}

std::string_view host_summary(bool shares_private) {
  return shares_private ? "always there; processes reach each other's"
                        : "always there; processes reach each other's where it is `shared`";
}

std::string memory_summary(const MemoryView& memory, bool shares_private) {
  if (memory.probe.missing)
    return fmt::format("{}: {}", missing_word(memory), reason(*memory.probe.missing));
  if (memory.probe.type == MemoryType::host) return std::string(host_summary(shares_private));
  if (memory.probe.type == MemoryType::dmabuf) return "always there";
  std::string text;
  for (const DeviceView& view : memory.devices) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", view.device.name);
    if (!view.nics.empty())
      text += fmt::format(" (near {}: {})", view.nics[0].name, to_string(view.nics[0].distance));
  }
  return text.empty() ? "no device" : text;
}

void append(std::string& text, const std::string& part) {
  if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
}

std::string numa_text(int node) { return node < 0 ? "" : fmt::format("NUMA node {}", node); }

std::string nic_text(const NicDevice& nic) {
  std::string text = nic.pci_address;
  append(text, numa_text(nic.numa_node));
  append(text, nic.firmware.empty() ? "" : "firmware " + nic.firmware);
  if (nic.imports_dmabufs)
    append(text, *nic.imports_dmabufs ? "imports dma-bufs" : "its driver imports no dma-bufs");
  if (nic.scale_up) append(text, "a Gaudi's own scale-up NIC: carries no dma-bufs, never chosen");
  return text;
}

std::string limits_text(const NicLimits& limits) {
  return fmt::format(
      "up to {} peers: {} queue pairs, {} an endpoint and {} a worker; {} completion queues of up "
      "to {} entries, "
      "{} "
      "memory regions, {} shared receive queues",
      limits.max_peers(), limits.max_qp, kQueuePairsOfEndpoint, kQueuePairsOfWorker, limits.max_cq,
      limits.max_cqe, limits.max_mr, limits.max_srq);
}

void print_port(Output& output, const NicPort& port) {
  std::string text = port_text(port);
  if (port.info.mtu_bytes != 0) append(text, fmt::format("MTU {}", port.info.mtu_bytes));
  output.line("    port {}   {}", port.info.port, text);
  if (port.refusal) output.line("      not usable: {}", describe_with_hint(*port.refusal));
  for (const GidInfo& gid : port.gids) {
    const bool used = !port.refusal && gid.index == port.info.gid_index;
    output.line("      GID {:<3} {} ({}{}{}){}", gid.index, gid.gid, gid.type,
                gid.interface.empty() ? "" : ", ", gid.interface, used ? "  <- used" : "");
  }
}

void print_device(Output& output, std::size_t index, const DeviceView& view) {
  const DeviceInfo& device = view.device;
  std::string text = device.name;
  // Most names already contain the address.
  if (device.name.find(device.pci_address) == std::string::npos) append(text, device.pci_address);
  if (device.size_bytes != 0) append(text, size_text(device.size_bytes));
  if (device.page_bytes != 0) append(text, "pages of " + size_text(device.page_bytes));
  append(text, numa_text(device.numa_node));
  if (!device.driven_by.empty()) append(text, "driven by " + device.driven_by);
  append(text, device.status);
  output.line("    {}  {}", index, text);
  std::string nics;
  for (const NearNic& nic : view.nics)
    append(nics, fmt::format("{} {}", nic.name, to_string(nic.distance)));
  if (!nics.empty()) output.line("       NICs, nearest first: {}", nics);
}

void print_memory(Output& output, const MemoryView& memory) {
  const MemoryProbe& probe = memory.probe;
  output.line("  {}{}{}", to_string(probe.type), probe.library.empty() ? "" : ": ", probe.library);
  for (std::size_t i = 0; i < memory.devices.size(); ++i)
    print_device(output, i, memory.devices[i]);
  if (probe.type == MemoryType::dmabuf && !probe.missing)
    output.line("    whatever the application brings (Context::import_dmabuf())");
  // There may be devices of which none can be used.
  if (probe.missing)
    output.line("    {}: {}", missing_word(memory), describe_with_hint(*probe.missing));
}

}  // namespace

std::string link_rate_text(std::uint64_t bits_per_second) {
  if (bits_per_second == 0) return "unknown rate";
  return fmt::format("{:g} Gb/s", static_cast<double>(bits_per_second) / 1e9);
}

void print_overview(Output& output, const Machine& machine,
                    const std::vector<SettingInfo>& settings) {
  if (machine.no_nics) output.line("{:<9}missing: {}", "NICs", reason(*machine.no_nics));
  std::string_view label = "NICs";
  for (const NicDevice& nic : machine.nics) {
    output.line("{:<9}{}", label, nic_summary(nic));
    label = "";
  }
  for (const MemoryView& memory : machine.memory)
    output.line("{:<9}{}", to_string(memory.probe.type),
                memory_summary(memory, machine.shares_private));
  label = "settings";
  for (const SettingInfo& setting : settings) {
    if (setting.source == "default") continue;
    output.line("{:<9}{}={} ({})", label, setting.name, setting.value, setting.source);
    label = "";
  }
  if (label == "settings") output.line("{:<9}all as by default", label);
  output.line("");
  output.line(
      "More: hbmwire info -d (devices, and what to do about those that are missing), "
      "hbmwire info -c (settings)");
}

void print_devices(Output& output, const Machine& machine) {
  output.line("RDMA NICs");
  if (machine.no_nics) output.line("  missing: {}", describe_with_hint(*machine.no_nics));
  for (const NicDevice& nic : machine.nics) {
    output.line("  {}  {}", nic.name, nic_text(nic));
    if (nic.refusal) {
      output.line("    not usable: {}", describe_with_hint(*nic.refusal));
    } else {
      output.line("    limits   {}", limits_text(nic.limits));
    }
    for (const NicPort& port : nic.ports) print_port(output, port);
  }
  output.line("Memory");
  for (const MemoryView& memory : machine.memory) print_memory(output, memory);
  output.line(
      "Distances: PIX same PCIe switch, PHB same host bridge, NODE same NUMA node, SYS "
      "across NUMA nodes");
}

void print_settings(Output& output, const std::vector<SettingInfo>& settings) {
  for (const SettingInfo& setting : settings) {
    output.line("");
    output.line("# {}.", setting.help);
    const bool has_default = !setting.default_value.empty();
    output.line("# {}; default: {}; this one is from: {}", setting.choices,
                has_default ? setting.default_value : "none", setting.source);
    output.line("{}={}", setting.name, setting.value);
  }
}

}  // namespace hbmwire::tools
