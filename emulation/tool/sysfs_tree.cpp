// SPDX-License-Identifier: MIT
#include "emulation/tool/sysfs_tree.hpp"

#include <fmt/core.h>

#include <array>

#include "emulation/nic/state/limits.hpp"
#include "emulation/tool/pci_layout.hpp"
#include "emulation/tool/port_tree.hpp"
#include "emulation/tool/sysfs_writer.hpp"

namespace hbmwire::emulation::tool {
namespace {

// The PCI SIG has not assigned 0xfffe.
constexpr PciIdentity kNic = {0xfffe, 0x0001, 0x020700, "hbmwire_nic"};

// The number of /dev/null, which stands for every emulated device node. libibverbs compares the
// number in sysfs with that of the node.
constexpr std::string_view kNullDeviceNumber = "1:3";

class NodeTree {
 public:
  NodeTree(SysfsWriter& writer, const Hardware& hardware, const Machine& machine)
      : writer_(writer), hardware_(hardware), machine_(machine), pci_(writer, hardware, machine) {}

  void write_nic(unsigned index, PortAddress address);
  void write_card(CardFamily family, unsigned index);

 private:
  [[nodiscard]] std::vector<Interface> interfaces_of(unsigned nic, unsigned port) const;
  void write_class_device(const PciPlace& place, const char* class_name, const std::string& name);
  void write_gaudi(const PciPlace& place, const CardModel& model, unsigned index);
  void write_amd_gpu(const PciPlace& place, const CardModel& model, unsigned index);

  SysfsWriter& writer_;
  const Hardware& hardware_;
  const Machine& machine_;
  PciLayout pci_;
};

// Writes devices/.../<bdf>/<class>/<name> with its links, and class/<class>/<name> that points to
// it.
void NodeTree::write_class_device(const PciPlace& place, const char* class_name,
                                  const std::string& name) {
  const auto class_directory = std::filesystem::path("class") / class_name;
  const auto at = place.path / class_name / name;
  writer_.link(at / "device", place.path);
  writer_.link(at / "subsystem", class_directory);
  writer_.link(class_directory / name, at);
}

// Distributes the interfaces to the Ethernet ports in turn.
std::vector<Interface> NodeTree::interfaces_of(unsigned nic, unsigned port) const {
  if (hardware_.infiniband[nic]) return {};
  const std::size_t ports =
      (hardware_.nics - hardware_.infiniband.count()) * std::size_t{hardware_.ports};
  std::size_t before = 0;
  for (unsigned other = 0; other < nic; ++other) {
    if (!hardware_.infiniband[other]) ++before;
  }
  std::vector<Interface> own;
  for (std::size_t i = before * hardware_.ports + port - 1; i < machine_.interfaces.size();
       i += ports) {
    own.push_back(machine_.interfaces[i]);
  }
  return own;
}

void NodeTree::write_nic(unsigned index, PortAddress address) {
  const auto& place = pci_.nic(index);
  pci_.write_endpoint(place, kNic);

  const auto name = fmt::format("emu{}", index);
  write_class_device(place, "infiniband", name);
  const auto at = place.path / "infiniband" / name;
  writer_.file(at / "node_type", "1: CA");
  writer_.file(at / "node_guid", address.guid());
  writer_.file(at / "sys_image_guid", address.guid());
  writer_.file(at / "node_desc", "hbmwire emulated NIC");
  writer_.file(at / "fw_ver", "1.0.emulated");
  writer_.file(at / "board_id", "HBMWIRE_EMULATED");
  writer_.file(at / "hca_type", "EMULATED");
  writer_.file(at / "hw_rev", "1");
  writer_.file(at / "behaviour", to_text(hardware_.behaviour[index]));
  for (unsigned port = 1; port <= hardware_.ports; ++port) {
    address.port = static_cast<std::uint8_t>(port);
    const auto interfaces = interfaces_of(index, port);
    const auto directory = at / "ports" / std::to_string(port);
    if (hardware_.infiniband[index]) {
      write_infiniband_port(writer_, directory, address);
      continue;
    }
    write_ethernet_port(writer_, directory, address, interfaces);
    // Programs look here for the interface of a NIC. The interface itself is the machine's.
    for (const auto& interface : interfaces) {
      writer_.link_outside(place.path / "net" / interface.name, "/sys/class/net/" + interface.name);
    }
  }

  const auto verbs_name = fmt::format("uverbs{}", index);
  write_class_device(place, "infiniband_verbs", verbs_name);
  const auto verbs = place.path / "infiniband_verbs" / verbs_name;
  writer_.file(verbs / "ibdev", name);
  writer_.file(verbs / "abi_version", "1");
  writer_.file(verbs / "dev", kNullDeviceNumber);
}

void NodeTree::write_gaudi(const PciPlace& place, const CardModel& model, unsigned index) {
  writer_.file(place.path / "pci_addr", place.bdf);
  writer_.file(place.path / "module_id", std::to_string(index));
  writer_.file(place.path / "device_type", model.device_type);
  writer_.file(place.path / "status", "Operational");
  writer_.file(place.path / "driver_ver", "1.0.emulated");

  for (const char* format : {"accel", "accel_controlD"}) {
    const auto name = fmt::format("{}{}", format, index);
    write_class_device(place, "accel", name);
    writer_.file(place.path / "accel" / name / "dev", kNullDeviceNumber);
  }
}

// With a large BAR the CPU reaches all of the memory, as dma-bufs for NICs need it.
void NodeTree::write_amd_gpu(const PciPlace& place, const CardModel& model, unsigned index) {
  writer_.file(place.path / "mem_info_vram_total", std::to_string(model.memory_bytes));
  constexpr std::uint64_t kSmallBarBytes = 256ULL << 20;
  writer_.file(place.path / "mem_info_vis_vram_total",
               std::to_string(hardware_.large_bar ? model.memory_bytes : kSmallBarBytes));
  const auto name = render_node(index);
  write_class_device(place, "drm", name);
  writer_.file(place.path / "drm" / name / "dev", kNullDeviceNumber);
}

void NodeTree::write_card(CardFamily family, unsigned index) {
  const auto& place = pci_.card(family, index);
  const auto model = model_of(hardware_, family);
  pci_.write_endpoint(place, model.pci);
  if (family == CardFamily::gaudi) return write_gaudi(place, model, index);
  // The emulated library finds its GPUs by this file, because no device class leads to NVIDIA's.
  writer_.file(place.path / "emulated_as", fmt::format("{}{}", name_of(family), index));
  if (family == CardFamily::rocm) write_amd_gpu(place, model, index);
}

}  // namespace

// Linux numbers render nodes from 128 on.
std::string render_node(unsigned index) { return fmt::format("renderD{}", 128 + index); }

std::string eight_groups(const GidBytes& gid) {
  std::string text;
  for (std::size_t i = 0; i < gid.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", gid[i], gid[i + 1]);
  }
  return text;
}

std::uint8_t PortAddress::last() const {
  constexpr unsigned kSecondPort = 128;
  static_assert(kMaxNics < kSecondPort && kMaxPorts == 2);
  return static_cast<std::uint8_t>(port == 1 ? nic : kSecondPort + nic);
}

std::string PortAddress::ipv4() const { return fmt::format("127.{}.{}.{}", fabric, node, last()); }

// The MAC is 02:48:42:fabric:node:last. The GUID has ff:fe in its middle. The GID also flips the
// "local" bit (RFC 4291).
std::string PortAddress::guid() const {
  return fmt::format("0248:42ff:fe{:02x}:{:02x}{:02x}", fabric, node, last());
}

GidBytes PortAddress::link_local_gid() const {
  return link_local_of({0x02, 0x48, 0x42, fabric, node, last()});
}

GidBytes PortAddress::ipv4_gid() const {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, fabric, node, last()};
}

GidBytes PortAddress::infiniband_gid() const {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x48, 0x42, 0xff, 0xfe, fabric, node, last()};
}

std::uint16_t PortAddress::lid() const {
  static_assert(kMaxNodes * kMaxNics * kMaxPorts < kSubnetManagerLid);
  return static_cast<std::uint16_t>(fabric_port());
}

unsigned PortAddress::fabric_port() const {
  static_assert(kMaxNodes * kMaxNics * kMaxPorts < emulation::nic::kMaxFabricPorts);
  return ((node - 1U) * kMaxNics + nic - 1U) * kMaxPorts + port;
}

std::uint8_t fabric_number(std::string_view fabric) {
  std::uint32_t hash = 0x811c'9dc5;  // FNV-1a
  for (const char c : fabric) hash = (hash ^ static_cast<unsigned char>(c)) * 0x0100'0193;
  return static_cast<std::uint8_t>(16 + hash % 224);
}

Status write_sysfs_tree(const std::filesystem::path& root, const Hardware& hardware,
                        const Machine& machine, std::uint8_t fabric, std::uint8_t node) {
  SysfsWriter writer(root);
  // The version of the kernel's verbs interface that rdma-core 36 to 56 accepts.
  writer.file("class/infiniband_verbs/abi_version", "6");
  // The version of the connection manager's interface.
  writer.file("class/misc/rdma_cm/abi_version", "4");
  writer.file("class/misc/rdma_cm/dev", kNullDeviceNumber);
  writer.directory("class/infiniband");
  writer.directory("class/accel");
  writer.directory("bus/pci/devices");
  writer.directory("devices");
  NodeTree tree(writer, hardware, machine);
  // Backwards, because libibverbs lists devices in the order of readdir(), and tmpfs returns the
  // youngest first.
  for (unsigned i = hardware.nics; i-- > 0;) {
    tree.write_nic(i, {fabric, node, static_cast<std::uint8_t>(i + 1)});
  }
  for (const auto family : kCardFamilies) {
    for (unsigned i = 0; i < hardware.cards(family); ++i) tree.write_card(family, i);
  }
  for (const auto& link : machine.kept) writer.link_outside(link.path, link.target);
  return writer.status();
}

}  // namespace hbmwire::emulation::tool
