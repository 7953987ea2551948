// SPDX-License-Identifier: MIT
#include "tools/info/json.hpp"

#include <cstdlib>

#include "hbmwire/settings.hpp"
#include "hbmwire/topology.hpp"
#include "hbmwire/version.hpp"

#include "tools/wire/messages.hpp"

namespace hbmwire::tools {
namespace {

Json error_json(const std::optional<Error>& error) {
  if (!error) return nullptr;
  return {{"stage", to_string(error->stage)},
          {"code", to_string(error->code)},
          {"text", describe_with_hint(*error)},
          {"remedy", hint_text(error->hint)},
          {"hint", to_string(error->hint)}};
}

// Unknown values are null, so that they cannot be mistaken for real ones.
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json node_or_null(int node) { return node < 0 ? Json(nullptr) : Json(node); }

Json number_or_null(std::uint64_t number) { return number == 0 ? Json(nullptr) : Json(number); }

Json port_json(const NicPort& port) {
  Json gids = Json::array();
  for (const GidInfo& gid : port.gids) {
    gids.push_back({{"index", gid.index},
                    {"gid", gid.gid},
                    {"type", gid.type},
                    {"interface", text_or_null(gid.interface)}});
  }
  const bool usable = !port.refusal;
  return {{"port", port.info.port},
          {"state", text_or_null(port.state)},
          {"link_layer", port.info.ethernet ? "Ethernet" : "InfiniBand"},
          {"rate_bits_per_second", number_or_null(port.rate_bits_per_second)},
          {"mtu_bytes", number_or_null(port.info.mtu_bytes)},
          {"gid_index", usable ? Json(port.info.gid_index) : Json(nullptr)},
          {"gids", gids},
          {"refusal", error_json(port.refusal)}};
}

Json limits_json(const NicLimits& limits) {
  return {{"max_qp", limits.max_qp},
          {"max_cq", limits.max_cq},
          {"max_cqe", limits.max_cqe},
          {"max_mr", limits.max_mr},
          {"max_srq", limits.max_srq}};
}

Json nic_json(const NicDevice& nic) {
  Json ports = Json::array();
  for (const NicPort& port : nic.ports) ports.push_back(port_json(port));
  return {{"name", nic.name},
          {"pci_address", text_or_null(nic.pci_address)},
          {"numa_node", node_or_null(nic.numa_node)},
          {"firmware", text_or_null(nic.firmware)},
          {"imports_dmabufs", nic.imports_dmabufs ? Json(*nic.imports_dmabufs) : Json(nullptr)},
          {"scale_up", nic.scale_up},
          {"limits", nic.refusal ? Json(nullptr) : limits_json(nic.limits)},
          {"max_peers", nic.refusal ? Json(nullptr) : Json(nic.limits.max_peers())},
          {"ports", ports},
          {"refusal", error_json(nic.refusal)}};
}

Json device_json(std::size_t index, const DeviceView& view) {
  Json nics = Json::array();
  for (const NearNic& nic : view.nics) {
    nics.push_back({{"name", nic.name},
                    {"pci_address", text_or_null(nic.pci_address)},
                    {"numa_node", node_or_null(nic.numa_node)},
                    {"distance", to_string(nic.distance)}});
  }
  const DeviceInfo& device = view.device;
  return {{"index", index},
          {"name", device.name},
          {"pci_address", text_or_null(device.pci_address)},
          {"numa_node", node_or_null(device.numa_node)},
          {"size_bytes", number_or_null(device.size_bytes)},
          {"page_bytes", number_or_null(device.page_bytes)},
          {"driven_by", text_or_null(device.driven_by)},
          {"status", text_or_null(device.status)},
          {"nics", nics}};
}

Json memory_json(const MemoryView& memory) {
  Json devices = Json::array();
  for (std::size_t i = 0; i < memory.devices.size(); ++i)
    devices.push_back(device_json(i, memory.devices[i]));
  return {{"type", to_string(memory.probe.type)},
          {"library", text_or_null(memory.probe.library)},
          {"devices", devices},
          {"missing", error_json(memory.probe.missing)}};
}

}  // namespace

Json machine_json(const Machine& machine) {
  Json nics = Json::array();
  for (const NicDevice& nic : machine.nics) nics.push_back(nic_json(nic));
  Json memory = Json::array();
  for (const MemoryView& view : machine.memory) memory.push_back(memory_json(view));
  return {{"nics", nics},
          {"nics_missing", error_json(machine.no_nics)},
          {"memory", memory},
          {"shared_memory", {{"private", machine.shares_private}}}};
}

Json version_json() {
  const auto protocols = protocol_versions();
  return {{"version", to_string(version())},
          {"protocols",
           {{"endpoint", protocols.endpoint},
            {"memory_key", protocols.memory_key},
            {"attach", protocols.attach},
            {"tools", wire::kVersion}}}};
}

Json settings_json(const std::vector<SettingInfo>& settings) {
  Json list = Json::array();
  for (const SettingInfo& setting : settings) {
    list.push_back({{"name", setting.name},
                    {"value", setting.value},
                    {"default", setting.default_value},
                    {"choices", setting.choices},
                    {"source", setting.source},
                    {"help", setting.help}});
  }
  // Read before any thread exists.
  const char* const file = std::getenv(kSettingsFileVariable);  // NOLINT(concurrency-mt-unsafe)
  return {{"settings", list}, {"settings_file", text_or_null(file != nullptr ? file : "")}};
}

}  // namespace hbmwire::tools
