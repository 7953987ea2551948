// SPDX-License-Identifier: MIT
#include "tools/emulate/sysfs_tree.hpp"

#include <fmt/core.h>

#include <array>

#include "tools/emulate/pci_layout.hpp"
#include "tools/emulate/sysfs_writer.hpp"

namespace hbmwire::tools::emulate {
namespace {

struct CardModel {
  CardKind kind;
  std::string_view name;
  const char* device_type;  // what the driver writes into that attribute
  std::uint16_t pci_device;
  std::uint64_t hbm_gib;
};

constexpr std::uint16_t kHabanaVendor = 0x1da3;
constexpr std::array<CardModel, 3> kCardModels = {{
    {CardKind::gaudi, "gaudi", "GAUDI", 0x1000, 32},
    {CardKind::gaudi2, "gaudi2", "GAUDI2", 0x1020, 96},
    {CardKind::gaudi3, "gaudi3", "GAUDI3", 0x1060, 128},
}};

// The PCI SIG has given 0xfffe to nobody.
constexpr PciIdentity kNic = {0xfffe, 0x0001, 0x020700, "hbmwire_nic"};

// dev_t of /dev/null, which stands in for every emulated device node (libibverbs compares the two).
constexpr std::string_view kNullDevice = "1:3";

const CardModel& model_of(CardKind kind) { return kCardModels[static_cast<std::size_t>(kind)]; }

std::string eight_groups(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    text += fmt::format("{}{:02x}{:02x}", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
  }
  return text;
}

class NodeTree {
 public:
  NodeTree(SysfsWriter& writer, const Hardware& hardware, const Machine& machine)
      : writer_(writer), hardware_(hardware), pci_(writer, hardware, machine) {}

  void write_nic(unsigned index, const NicAddress& address);
  void write_card(unsigned index);

 private:
  void write_port(const std::filesystem::path& port, const NicAddress& address);
  void write_class_device(const PciPlace& place, const char* class_name, const std::string& name);

  SysfsWriter& writer_;
  const Hardware& hardware_;
  PciLayout pci_;
};

// devices/.../<bdf>/<class>/<name> with its links, and class/<class>/<name> that names it.
void NodeTree::write_class_device(const PciPlace& place, const char* class_name,
                                  const std::string& name) {
  const auto class_directory = std::filesystem::path("class") / class_name;
  const auto at = place.path / class_name / name;
  writer_.link(at / "device", place.path);
  writer_.link(at / "subsystem", class_directory);
  writer_.link(class_directory / name, at);
}

void NodeTree::write_nic(unsigned index, const NicAddress& address) {
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
  write_port(at / "ports/1", address);

  const auto verbs_name = fmt::format("uverbs{}", index);
  write_class_device(place, "infiniband_verbs", verbs_name);
  const auto verbs = place.path / "infiniband_verbs" / verbs_name;
  writer_.file(verbs / "ibdev", name);
  writer_.file(verbs / "abi_version", "1");
  writer_.file(verbs / "dev", kNullDevice);
}

void NodeTree::write_port(const std::filesystem::path& port, const NicAddress& address) {
  // As on a ConnectX: each address twice, once for either version of RoCE.
  struct Gid {
    std::string value;
    const char* type;
  };

  const std::array<Gid, 4> gids = {{{address.link_local_gid(), "IB/RoCE v1"},
                                    {address.link_local_gid(), "RoCE v2"},
                                    {address.ipv4_gid(), "IB/RoCE v1"},
                                    {address.ipv4_gid(), "RoCE v2"}}};
  for (std::size_t i = 0; i < gids.size(); ++i) {
    const auto number = std::to_string(i);
    writer_.file(port / "gids" / number, gids[i].value);
    writer_.file(port / "gid_attrs/types" / number, gids[i].type);
    writer_.file(port / "gid_attrs/ndevs" / number, "lo");
  }
  writer_.file(port / "pkeys/0", "0xffff");
  writer_.file(port / "link_layer", "Ethernet");
  writer_.file(port / "state", "4: ACTIVE");
  writer_.file(port / "phys_state", "5: LinkUp");
  writer_.file(port / "rate", "100 Gb/sec (4X EDR)");
  writer_.file(port / "lid", "0x0");
  writer_.file(port / "lid_mask_count", "0");
  writer_.file(port / "sm_lid", "0x0");
  writer_.file(port / "sm_sl", "0");
  writer_.file(port / "cap_mask", "0x00010000");
  for (const char* counter :
       {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets",
        "port_xmit_discards", "port_rcv_errors", "symbol_error", "link_downed"}) {
    writer_.file(port / "counters" / counter, "0");
  }
  for (const char* counter : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err",
                              "rnr_nak_retry_err", "lifespan"}) {
    writer_.file(port / "hw_counters" / counter, "0");
  }
}

void NodeTree::write_card(unsigned index) {
  const auto& place = pci_.card(index);
  const auto& model = model_of(hardware_.kind);
  pci_.write_endpoint(place, {kHabanaVendor, model.pci_device, 0x120000, "habanalabs"});
  writer_.file(place.path / "pci_addr", place.bdf);
  writer_.file(place.path / "module_id", std::to_string(index));
  writer_.file(place.path / "device_type", model.device_type);
  writer_.file(place.path / "status", "Operational");
  writer_.file(place.path / "driver_ver", "1.0.emulated");

  for (const char* format : {"accel", "accel_controlD"}) {
    const auto name = fmt::format("{}{}", format, index);
    write_class_device(place, "accel", name);
    writer_.file(place.path / "accel" / name / "dev", kNullDevice);
  }
}

}  // namespace

std::string_view name_of(CardKind kind) { return model_of(kind).name; }

std::optional<CardKind> kind_from_name(std::string_view name) {
  for (const auto& model : kCardModels) {
    if (model.name == name) return model.kind;
  }
  return std::nullopt;
}

std::uint64_t hbm_bytes(CardKind kind) { return model_of(kind).hbm_gib << 30; }

std::string NicAddress::ipv4() const { return fmt::format("127.{}.{}.{}", fabric, node, nic); }

// MAC 02:48:42:fabric:node:nic; the GUID puts ff:fe into its middle, the GID besides flips the
// "local" bit (RFC 4291).
std::string NicAddress::guid() const {
  return fmt::format("0248:42ff:fe{:02x}:{:02x}{:02x}", fabric, node, nic);
}

std::string NicAddress::link_local_gid() const {
  return eight_groups(
      {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x48, 0x42, 0xff, 0xfe, fabric, node, nic});
}

std::string NicAddress::ipv4_gid() const {
  return eight_groups({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, fabric, node, nic});
}

std::uint8_t fabric_number(std::string_view fabric) {
  std::uint32_t hash = 0x811c'9dc5;  // FNV-1a
  for (const char c : fabric) hash = (hash ^ static_cast<unsigned char>(c)) * 0x0100'0193;
  return static_cast<std::uint8_t>(16 + hash % 224);
}

Status write_sysfs_tree(const std::filesystem::path& root, const Hardware& hardware,
                        const Machine& machine, std::uint8_t fabric, std::uint8_t node) {
  SysfsWriter writer(root);
  // The version of the kernel's verbs interface that rdma-core 36 to 56 accept.
  writer.file("class/infiniband_verbs/abi_version", "6");
  writer.directory("class/infiniband");
  writer.directory("class/accel");
  writer.directory("bus/pci/devices");
  writer.directory("devices");
  NodeTree tree(writer, hardware, machine);
  // Backwards: libibverbs lists devices in the order of readdir, and tmpfs begins with the
  // youngest.
  for (unsigned i = hardware.nics; i-- > 0;) {
    tree.write_nic(i, {fabric, node, static_cast<std::uint8_t>(i + 1)});
  }
  for (unsigned i = 0; i < hardware.cards; ++i) tree.write_card(i);
  return writer.status();
}

}  // namespace hbmwire::tools::emulate
