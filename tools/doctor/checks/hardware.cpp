// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/hardware.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/evidence/pci_config.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr std::string_view kPciDevices = "/sys/bus/pci/devices/";
constexpr std::string_view kHabana = "0x1da3";

// An archive may claim any number of devices, and checks compare each device with each other one. 8
// NICs with all their virtual functions are some 1000 RDMA devices.
constexpr std::size_t kMostNics = 1024;
constexpr std::size_t kMostCards = 256;

/// A kind of accelerator: the PCI vendor, and the PCI classes of its accelerators. AMD's display
/// controllers (0x0300) are left out, because most of them are part of a CPU. A kind with one class
/// has it twice.
struct CardKind {
  std::string_view vendor;
  std::string_view type;
  std::array<std::string_view, 2> classes;
};

constexpr std::array<CardKind, 3> kCardKinds{{
    {kHabana, "gaudi", {"0x1200", "0x1200"}},
    {"0x10de", "cuda", {"0x0300", "0x0302"}},
    {"0x1002", "rocm", {"0x0380", "0x1200"}},
}};

void add_card(std::vector<Card>& cards, Card card) {
  if (cards.size() == kMostCards) return;
  const bool known = std::ranges::any_of(cards, [&](const Card& other) {
    return other.pci_address == card.pci_address && !card.pci_address.empty();
  });
  if (!known) cards.push_back(std::move(card));
}

// Keeps the first error that leaves a question open.
void note(std::optional<Gap>& gap, const std::string& source, int error) {
  if (!gap && is_unread(error))
    gap = Gap{.source = source, .error = error, .words = error_words(error)};
}

// The first line of a file; notes a gap if it can't be read.
std::string noted_line(Evidence& machine, std::optional<Gap>& gap, const std::string& path) {
  const Answer line = read_line(machine, path);
  note(gap, path, line.error);
  return line.value;
}

std::string told_address(const Json& device) {
  const std::string address = text_at(device, "pci_address");
  return is_pci_address(address) ? address : std::string();
}

// "Told" things are those that `hbmwire info` lists.
void add_told_cards(const Json& info, std::vector<Card>& cards) {
  for (const Json& memory : member(info, "memory")) {
    const std::string type = text_at(memory, "type");
    if (type == "host" || type == "dmabuf") continue;
    for (const Json& device : member(memory, "devices")) {
      add_card(cards, {.type = type,
                       .pci_address = told_address(device),
                       .status = text_at(device, "status"),
                       .size_bytes = number_at(device, "size_bytes").value_or(0)});
    }
  }
}

void add_cards_on_pci(Evidence& machine, Hardware& hardware) {
  const std::string folder = "/sys/bus/pci/devices";
  const Names names = machine.folder(folder);
  note(hardware.cards_gap, folder, error_below(machine, "/sys", names.error));
  for (const std::string& address : names.values) {
    if (!is_pci_address(address)) continue;
    const std::string vendor = noted_line(machine, hardware.cards_gap, pci_path(address, "vendor"));
    const auto* const kind = std::ranges::find(kCardKinds, vendor, &CardKind::vendor);
    if (kind == kCardKinds.end()) continue;
    const std::string device_class =
        noted_line(machine, hardware.cards_gap, pci_path(address, "class"));
    const bool is_card = std::ranges::any_of(
        kind->classes, [&](std::string_view wanted) { return device_class.starts_with(wanted); });
    if (is_card)
      add_card(hardware.cards,
               {.type = std::string(kind->type), .pci_address = address, .status = {}});
  }
}

// hbmwire cannot use a Gaudi's own scale-up NICs: they do not import dma-bufs.
bool is_scale_up(Evidence& machine, Hardware& hardware, const std::string& pci_address) {
  return !pci_address.empty() &&
         noted_line(machine, hardware.nics_gap, pci_path(pci_address, "vendor")) == kHabana;
}

std::string pci_address_of_nic(Evidence& machine, Hardware& hardware, const std::string& name) {
  const std::string path = "/sys/class/infiniband/" + name + "/device";
  const Answer device = machine.link(path);
  note(hardware.nics_gap, path, device.error);
  const std::string address = base_name(device.value);
  return device.error == 0 && is_pci_address(address) ? address : std::string();
}

void add_told_nics(const Json& info, std::vector<Nic>& nics, std::set<std::string>& scale_up) {
  for (const Json& told : member(info, "nics")) {
    const std::string name = text_at(told, "name");
    if (!is_device_name(name) || nics.size() == kMostNics) continue;
    if (flag_at(told, "scale_up").value_or(false)) {
      scale_up.insert(name);
      continue;
    }
    nics.push_back({.name = name,
                    .pci_address = told_address(told),
                    .driver = {},
                    .listed = true,
                    .imports_dmabufs = flag_at(told, "imports_dmabufs"),
                    .ports = member(told, "ports")});
  }
}

void add_nics_of_kernel(Evidence& machine, Hardware& hardware,
                        const std::set<std::string>& scale_up) {
  const std::string folder = "/sys/class/infiniband";
  const Names names = machine.folder(folder);
  note(hardware.nics_gap, folder, error_below(machine, "/sys", names.error));
  auto& nics = hardware.nics;
  for (const std::string& name : names.values) {
    if (nics.size() == kMostNics) break;
    if (!is_device_name(name) || scale_up.contains(name) ||
        std::ranges::find(nics, name, &Nic::name) != nics.end())
      continue;
    const std::string address = pci_address_of_nic(machine, hardware, name);
    if (!is_scale_up(machine, hardware, address))
      nics.push_back({.name = name,
                      .pci_address = address,
                      .driver = {},
                      .imports_dmabufs = {},
                      .ports = nullptr});
  }
}

void add_driver(Evidence& machine, Hardware& hardware, Nic& nic) {
  if (nic.pci_address.empty()) nic.pci_address = pci_address_of_nic(machine, hardware, nic.name);
  if (nic.pci_address.empty()) return;
  const std::string path = pci_path(nic.pci_address, "driver");
  const Answer driver = machine.link(path);
  note(hardware.nics_gap, path, driver.error);
  nic.driver = base_name(driver.value);
}

void note_failed_info(Hardware& hardware, const Told& info) {
  if (info.error == 0) return;
  // The text of the vendor's library names the setting or the limit.
  const std::string why = text_at(info.failure, "text");
  hardware.nics_gap = Gap{.source = "hbmwire info",
                          .error = info.error,
                          .words = why.empty() ? error_words(info.error) : why};
  hardware.cards_gap = hardware.nics_gap;
}

}  // namespace

bool Hardware::has(std::string_view type) const {
  return std::ranges::find(cards, type, &Card::type) != cards.end();
}

Hardware hardware_of(Evidence& machine) {
  const Told info = ask(machine, "info");
  Hardware hardware;
  note_failed_info(hardware, info);
  hardware.emulated =
      flag_at(info.error == 0 ? info.value : info.failure, "emulated").value_or(false);
  std::set<std::string> scale_up;
  add_told_nics(info.value, hardware.nics, scale_up);
  add_nics_of_kernel(machine, hardware, scale_up);
  for (Nic& nic : hardware.nics) add_driver(machine, hardware, nic);
  add_told_cards(info.value, hardware.cards);
  add_cards_on_pci(machine, hardware);
  for (const std::string& address : pci_addresses(hardware)) {
    const std::string path = std::string(kPciDevices) + address;
    note(hardware.places_gap, "realpath of " + path, machine.real_path(path).error);
  }
  return hardware;
}

Finding unknown_for_gap(std::string check, const Gap& gap) {
  Finding finding =
      unknown_for(std::move(check), "", gap.source, gap.error, "all that is known of the hardware");
  finding.found = gap.words;
  return finding;
}

// Domain, bus, device and function, all hexadecimal.
bool is_pci_address(std::string_view name) {
  constexpr std::size_t kShortestDomain = 4;
  constexpr std::string_view kBehindDomain = ":xx:xx.x";
  if (name.size() < kShortestDomain + kBehindDomain.size()) return false;
  const std::size_t domain = name.size() - kBehindDomain.size();
  const auto is_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char wanted = i < domain ? 'x' : kBehindDomain[i - domain];
    if (wanted == 'x' ? !is_digit(name[i]) : name[i] != wanted) return false;
  }
  return true;
}

std::optional<PciPlace> place_of(Evidence& machine, const std::string& pci_address) {
  if (!is_pci_address(pci_address)) return std::nullopt;
  const Answer path = machine.real_path(std::string(kPciDevices) + pci_address);
  if (path.error != 0) return std::nullopt;
  PciPlace place;
  std::string_view rest = path.value;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string name(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_pci_address(name)) {
      place.devices.push_back(name);
    } else if (place.devices.empty() && name.starts_with("pci")) {
      place.host_bridge = name;
    }
  }
  return place.devices.empty() ? std::nullopt : std::optional(place);
}

std::size_t shared_depth(const PciPlace& a, const PciPlace& b) {
  if (a.host_bridge != b.host_bridge) return 0;
  const auto branch =
      std::mismatch(a.devices.begin(), a.devices.end(), b.devices.begin(), b.devices.end());
  return static_cast<std::size_t>(branch.first - a.devices.begin());
}

std::vector<Neighbours> neighbours_in(Evidence& machine, const Hardware& hardware) {
  std::vector<Neighbours> found;
  for (const Nic& nic : hardware.nics) {
    const auto nic_place = place_of(machine, nic.pci_address);
    if (!nic_place) continue;
    for (const Card& card : hardware.cards) {
      const auto card_place = place_of(machine, card.pci_address);
      const std::size_t depth = card_place ? shared_depth(*nic_place, *card_place) : 0;
      if (depth == 0) continue;
      Neighbours pair{.nic = &nic, .card = &card, .bridges = {}};
      for (const PciPlace* place : {&*nic_place, &*card_place}) {
        for (std::size_t i = depth; i + 1 < place->devices.size(); ++i)
          pair.bridges.push_back(place->devices[i]);
      }
      found.push_back(std::move(pair));
    }
  }
  return found;
}

std::vector<std::string> pci_addresses(const Hardware& hardware) {
  std::vector<std::string> addresses;
  const auto add = [&](const std::string& address) {
    if (!address.empty() && std::ranges::find(addresses, address) == addresses.end())
      addresses.push_back(address);
  };
  for (const Nic& nic : hardware.nics) add(nic.pci_address);
  for (const Card& card : hardware.cards) add(card.pci_address);
  return addresses;
}

std::optional<GaudiEntry> gaudi_entry(Evidence& machine, const std::string& pci_address,
                                      int& error) {
  struct Layout {
    std::string folder;
    std::string prefix;
    std::string nodes;
  };

  error = 0;
  const auto note_error = [&](int of_answer) {
    if (error == 0 && is_unread(of_answer)) error = of_answer;
  };
  for (const Layout& layout : {Layout{"/sys/class/accel/", "accel", "/dev/accel/"},
                               Layout{"/sys/class/habanalabs/", "hl", "/dev/"}}) {
    const Names names = machine.folder(layout.folder.substr(0, layout.folder.size() - 1));
    note_error(names.error);
    for (const std::string& name : names.values) {
      if (!name.starts_with(layout.prefix) || !is_device_name(name) ||
          !leading_number(std::string_view(name).substr(layout.prefix.size())))
        continue;
      for (const char* inner : {"/device", ""}) {
        const std::string folder = layout.folder + name + inner;
        const Answer address = read_line(machine, folder + "/pci_addr");
        note_error(address.error);
        if (address.value == pci_address)
          return GaudiEntry{.folder = folder, .node = layout.nodes + name};
      }
    }
  }
  return std::nullopt;
}

std::optional<bool> is_guest(Evidence& machine) {
  const Answer cpus = machine.file("/proc/cpuinfo");
  if (cpus.error != 0) return std::nullopt;
  const auto flags = value_of_key(cpus.value, "flags");
  if (!flags) return false;  // not x86: no such flag
  const auto words = words_in(*flags);
  return std::ranges::find(words, "hypervisor") != words.end();
}

std::optional<std::string> rdma_function(Evidence& machine, int& error) {
  constexpr std::string_view kInfinibandClass = "0x0207";
  const Names names = machine.folder("/sys/bus/pci/devices");
  error = 0;
  const auto note_error = [&](int of_answer) {
    if (error == 0 && is_unread(of_answer)) error = of_answer;
  };
  note_error(names.error);
  for (const std::string& address : names.values) {
    if (!is_pci_address(address)) continue;
    const Answer driver = machine.link(pci_path(address, "driver"));
    const Answer device_class = read_line(machine, pci_path(address, "class"));
    note_error(driver.error);
    note_error(device_class.error);
    if (base_name(driver.value) == "mlx5_core" || device_class.value.starts_with(kInfinibandClass))
      return address;
  }
  return std::nullopt;
}

std::optional<bool> is_virtualisation_host(Evidence& machine) {
  const Names names = machine.folder("/sys/bus/pci/drivers/vfio-pci");
  if (is_unread(names.error)) return std::nullopt;
  return std::ranges::any_of(names.values,
                             [](const std::string& name) { return is_pci_address(name); });
}

std::size_t cards_seen(Evidence& machine) { return hardware_of(machine).cards.size(); }

}  // namespace hbmwire::tools::doctor
