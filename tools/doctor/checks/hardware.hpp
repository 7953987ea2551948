// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/evidence/evidence.hpp"

/// The devices that the checks judge, collected from `hbmwire info` and from sysfs. A device that
/// libibverbs or a vendor's library does not see still appears on PCI, and the doctor must explain
/// why.
namespace hbmwire::tools::doctor {

struct Nic {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty for a software NIC
  std::string driver;       ///< "mlx5_core"; empty: unknown
  bool listed = false;      ///< libibverbs lists it
  std::optional<bool> imports_dmabufs;
  Json ports;  ///< as in `hbmwire info --json`; null if the NIC is not listed there
};

struct Card {
  std::string type;  ///< "gaudi", "cuda", "rocm"
  std::string pci_address;
  std::string status;            ///< as its driver reports it
  std::uint64_t size_bytes = 0;  ///< size of its memory; 0 if unknown
};

/// A file or call that gave no answer.
struct Gap {
  std::string source;      ///< the file or call
  int error = 0;           ///< errno; 0 if nothing is missing
  std::string words = {};  ///< the reason, as text for a finding
};

struct Hardware {
  bool emulated = false;  ///< runs below `hbmwire emulate`: no kernel driver is involved
  std::vector<Nic> nics;  ///< without an accelerator's own scale-up NICs
  std::vector<Card> cards;
  // The first thing of each kind that could not be read. Check::run() mentions it for the checks
  // that depend on it.
  std::optional<Gap> nics_gap;    ///< NICs, their addresses or their drivers may be missing here
  std::optional<Gap> cards_gap;   ///< cards may be missing
  std::optional<Gap> places_gap;  ///< place_of() failed for a NIC or a card

  [[nodiscard]] bool has(std::string_view type) const;
};

/// Leaves out devices with invalid names (see is_device_name(), is_pci_address()).
[[nodiscard]] Hardware hardware_of(Evidence& machine);

/// The unknown finding of a check that could not see all of the hardware.
[[nodiscard]] Finding unknown_for_gap(std::string check, const Gap& gap);

/// True for "0000:3a:00.0"; false for "pci0000:30" and for a bus.
[[nodiscard]] bool is_pci_address(std::string_view name);

/// The position of a PCI device in the tree.
struct PciPlace {
  std::string host_bridge;           ///< "pci0000:30"
  std::vector<std::string> devices;  ///< the bridges from the top down, and the device itself
};

/// Empty if sysfs does not show it.
[[nodiscard]] std::optional<PciPlace> place_of(Evidence& machine, const std::string& pci_address);

/// The number of devices that two places share, counted from the top.
[[nodiscard]] std::size_t shared_depth(const PciPlace& a, const PciPlace& b);

/// A NIC and a card below one PCIe switch, whose traffic need not go over the root complex.
struct Neighbours {
  const Nic* nic = nullptr;
  const Card* card = nullptr;
  std::vector<std::string> bridges;  ///< the bridges between them, without the one where they meet
};

/// `hardware` must outlive the result.
[[nodiscard]] std::vector<Neighbours> neighbours_in(Evidence& machine, const Hardware& hardware);

/// The PCI addresses of all NICs and cards, each once.
[[nodiscard]] std::vector<std::string> pci_addresses(const Hardware& hardware);

/// A card in the folders of the driver habanalabs.
struct GaudiEntry {
  std::string folder;  ///< has the files "status" and "pci_addr": "/sys/class/accel/accel0/device"
  std::string node;    ///< "/dev/accel/accel0", "/dev/hl0"
};

/// The entry with this PCI address; empty if there is none. `error` is then the errno of a folder
/// or file that could not be read, or 0. Knows three layouts: that of Linux 6.7 and of the driver's
/// releases, that of 6.3 to 6.6, and the older one.
[[nodiscard]] std::optional<GaudiEntry> gaudi_entry(Evidence& machine,
                                                    const std::string& pci_address, int& error);

/// Whether this is a virtual machine, by the flag that a hypervisor sets in /proc/cpuinfo (x86
/// only). Empty if that file cannot be read.
[[nodiscard]] std::optional<bool> is_guest(Evidence& machine);

/// A PCI function of a NIC that supports RDMA, even if the kernel shows no RDMA device for it.
/// Empty if there is none; `error` is then the errno of a file that could not be read, or 0.
[[nodiscard]] std::optional<std::string> rdma_function(Evidence& machine, int& error);

/// Whether this machine gives PCI devices to virtual machines, that is, vfio-pci drives a device.
/// Empty if that cannot be seen.
[[nodiscard]] std::optional<bool> is_virtualisation_host(Evidence& machine);

}  // namespace hbmwire::tools::doctor
