// SPDX-License-Identifier: MIT
#include "info.hpp"

#include <pybind11/stl.h>

#include <string>

#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/settings.hpp"
#include "hbmwire/version.hpp"

#include "arguments.hpp"
#include "parts.hpp"
#include "words.hpp"

namespace hbmwire::python {

int device_index(const RegionHold& hold) {
  const DeviceInfo& device = hold.region.allocation().domain().device();
  for (const MemoryProbe& probe : hold.context.memory()) {
    if (probe.type != device.type) continue;
    for (std::size_t i = 0; i < probe.devices.size(); ++i) {
      if (probe.devices[i].pci_address == device.pci_address) return static_cast<int>(i);
    }
  }
  return 0;
}

namespace {

std::string why(const std::optional<Error>& error) { return error ? describe(*error) : ""; }

void bind_devices(py::module_& module) {
  py::class_<DeviceInfo>(module, "Device", "The device that memory belongs to.")
      .def("__repr__", [](const DeviceInfo& self) { return "<hbmwire.Device " + self.name + ">"; })
      .def_property_readonly("type", [](const DeviceInfo& self) { return word_of(self.type); })
      .def_readonly("name", &DeviceInfo::name, R"("host", or as "gaudi2 0000:33:00.0".)")
      .def_readonly("pci_address", &DeviceInfo::pci_address, "Empty for the host.")
      .def_readonly("driven_by", &DeviceInfo::driven_by, "The vendor's library that drives it.")
      .def_readonly("nbytes", &DeviceInfo::size_bytes, "All of its memory; 0: unknown.")
      .def_readonly("page_bytes", &DeviceInfo::page_bytes,
                    "An allocation occupies whole pages of so many bytes.")
      .def_readonly("numa_node", &DeviceInfo::numa_node, "-1: unknown.")
      .def_readonly("status", &DeviceInfo::status, "As its driver says; may be empty.");
  py::class_<MemoryProbe>(module, "MemoryProbe", "One type of memory as it was found.")
      .def("__repr__",
           [](const MemoryProbe& self) {
             return "<hbmwire.MemoryProbe " + std::string(word_of(self.type)) + ", " +
                    std::to_string(self.devices.size()) + " devices>";
           })
      .def_property_readonly("type", [](const MemoryProbe& self) { return word_of(self.type); })
      .def_readonly("library", &MemoryProbe::library, "The library that drives it; may be empty.")
      .def_readonly("devices", &MemoryProbe::devices, "Its Devices, by index.")
      .def_property_readonly(
          "missing", [](const MemoryProbe& self) { return why(self.missing); },
          "Why there is no device that could be used; empty if there is one.");
  py::class_<AddressInfo>(module, "AddressInfo", "The facts that are known of an address.")
      .def("__repr__",
           [](const AddressInfo& self) {
             return "<hbmwire.AddressInfo " + self.device->name + ", " +
                    std::string(word_of(self.path)) + ">";
           })
      .def_property_readonly("device", [](const AddressInfo& self) { return *self.device; })
      .def_readonly("base_address", &AddressInfo::base_address,
                    "The first address of the allocation that it is in.")
      .def_readonly("nbytes", &AddressInfo::size_bytes, "The length of that allocation.")
      .def_property_readonly(
          "path", [](const AddressInfo& self) { return word_of(self.path); },
          "How a NIC would reach it.");
}

void bind_nics(py::module_& module) {
  py::class_<NicPort>(module, "NicPort", "A port of an RDMA device, as it is now.")
      .def("__repr__",
           [](const NicPort& self) {
             return "<hbmwire.NicPort " + std::to_string(self.info.port) + ", " + self.state + ">";
           })
      .def_property_readonly(
          "port", [](const NicPort& self) { return self.info.port; }, "Its number.")
      .def_readonly("state", &NicPort::state, R"("active", "down", ...)")
      .def_property_readonly(
          "gid", [](const NicPort& self) { return self.info.gid; }, "The GID that is used.")
      .def_property_readonly(
          "gid_type", [](const NicPort& self) { return self.info.gid_type; },
          R"("RoCE v2", "IB", ...)")
      .def_property_readonly(
          "mtu_bytes", [](const NicPort& self) { return self.info.mtu_bytes; }, "The active MTU.")
      .def_readonly("bits_per_second", &NicPort::rate_bits_per_second,
                    "The link's rate; 0: unknown.")
      .def_property_readonly(
          "refusal", [](const NicPort& self) { return why(self.refusal); },
          "Why it can't be used; empty if it can.");
  py::class_<NicDevice>(module, "NicDevice", "An RDMA device of this machine, as it is now.")
      .def("__repr__",
           [](const NicDevice& self) { return "<hbmwire.NicDevice " + self.name + ">"; })
      .def_readonly("name", &NicDevice::name, R"(As "mlx5_0".)")
      .def_readonly("pci_address", &NicDevice::pci_address, "Empty where sysfs does not tell.")
      .def_readonly("firmware", &NicDevice::firmware, "Its version.")
      .def_readonly("numa_node", &NicDevice::numa_node, "-1: unknown.")
      .def_readonly("scale_up", &NicDevice::scale_up,
                    "A Gaudi's own NIC, which carries no dma-bufs.")
      .def_readonly("imports_dmabufs", &NicDevice::imports_dmabufs,
                    "Whether its driver registers dma-bufs; None: unknown.")
      .def_readonly("ports", &NicDevice::ports, "Its NicPorts.")
      .def_property_readonly(
          "refusal", [](const NicDevice& self) { return why(self.refusal); },
          "Why it can't be opened; empty if it can.");
}

}  // namespace

void bind_info(py::module_& module) {
  bind_devices(module);
  bind_nics(module);
  py::class_<SettingInfo>(module, "Setting", "A setting of the user: a variable HBMWIRE_*.")
      .def("__repr__",
           [](const SettingInfo& self) {
             return "<hbmwire.Setting " + std::string(self.name) + "=" + self.value + ">";
           })
      .def_readonly("name", &SettingInfo::name, R"(As "HBMWIRE_GAUDI_DMABUF".)")
      .def_readonly("choices", &SettingInfo::choices, R"(As "yes|no|try".)")
      .def_readonly("help", &SettingInfo::help, "A sentence.")
      .def_readonly("default", &SettingInfo::default_value, "Where nothing sets it.")
      .def_readonly("value", &SettingInfo::value, "As it was written.")
      .def_readonly("source", &SettingInfo::source,
                    R"("default", "environment", or "PATH:LINE" of the settings file.)");
  module.def("settings", &describe_settings,
             "Each setting (HBMWIRE_*), where its value comes from, and what it is for.");
  module.def(
      "protocol_versions",
      [] {
        const ProtocolVersions versions = protocol_versions();
        py::dict all;
        all["endpoint"] = versions.endpoint;
        all["memory_key"] = versions.memory_key;
        all["attach"] = versions.attach;
        return all;
      },
      "The versions of what the library exchanges with other processes.");
  module.def(
      "set_log_level", [](const py::object& level) { set_log_level(from_word<LogLevel>(level)); },
      py::arg("level"),
      "How much the library logs to standard error from now on: 'off', 'error', 'warn', 'info' or "
      "'debug'. Without this HBMWIRE_LOG_LEVEL decides.");
  module.attr("__version__") = to_string(version());
}

}  // namespace hbmwire::python
