// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/evidence/evidence.hpp"

/// The devices that the checks judge, by `hbmwire info` and by sysfs: a device that libibverbs or a
/// vendor's library does not see is on PCI all the same, and is what has to be explained.
namespace hbmwire::tools::doctor {

struct Nic {
  std::string name;         ///< "mlx5_0"
  std::string pci_address;  ///< empty: a software NIC
  std::string driver;       ///< "mlx5_core"; empty: unknown
  bool listed = false;      ///< libibverbs has it
  std::optional<bool> imports_dmabufs;
  Json ports;  ///< as `hbmwire info --json` has them; null where it does not list it
};

struct Card {
  std::string type;  ///< "gaudi", "cuda", "rocm"
  std::string pci_address;
  std::string status;            ///< as its driver tells it
  std::uint64_t size_bytes = 0;  ///< of its memory; 0: unknown
};

/// Something that could not be read.
struct Gap {
  std::string source;      ///< the file or call that would have told
  int error = 0;           ///< errno, or 0: nothing is missing
  std::string words = {};  ///< why, for a finding
};

struct Hardware {
  bool emulated = false;  ///< below `hbmwire emulate`: no driver of this kernel is on the way
  std::vector<Nic> nics;  ///< without an accelerator's own scale-up NICs
  std::vector<Card> cards;
  // The first thing that could not be read of each kind. Check::run() says so of the checks that it
  // concerns.
  std::optional<Gap> nics_gap;    ///< NICs may be missing here, or their addresses and drivers
  std::optional<Gap> cards_gap;   ///< cards may be missing
  std::optional<Gap> places_gap;  ///< place_of() of one of them

  [[nodiscard]] bool has(std::string_view type) const;
};

/// Devices whose names are none (is_device_name(), is_pci_address()) are left out.
[[nodiscard]] Hardware hardware_of(Evidence& machine);

/// An unknown finding of a check that could not see all of the hardware.
[[nodiscard]] Finding unknown_for_gap(std::string check, const Gap& gap);

/// "0000:3a:00.0"; "pci0000:30" and a bus are none.
[[nodiscard]] bool is_pci_address(std::string_view name);

/// Where a PCI device hangs.
struct PciPlace {
  std::string host_bridge;           ///< "pci0000:30"
  std::vector<std::string> devices;  ///< bridges, the topmost first, and the device itself
};

/// Nothing where sysfs does not tell.
[[nodiscard]] std::optional<PciPlace> place_of(Evidence& machine, const std::string& pci_address);

/// How many devices from the top two places have in common.
[[nodiscard]] std::size_t shared_depth(const PciPlace& a, const PciPlace& b);

/// A NIC and a card below one PCIe switch, whose traffic need not go over the root complex.
struct Neighbours {
  const Nic* nic = nullptr;
  const Card* card = nullptr;
  std::vector<std::string> bridges;  ///< on the way, without the one where they meet
};

/// `hardware` must outlive the result.
[[nodiscard]] std::vector<Neighbours> neighbours_in(Evidence& machine, const Hardware& hardware);

/// The PCI addresses of all NICs and cards, each once.
[[nodiscard]] std::vector<std::string> pci_addresses(const Hardware& hardware);

/// How the driver habanalabs shows a card.
struct GaudiEntry {
  std::string folder;  ///< with "status", "pci_addr": "/sys/class/accel/accel0/device"
  std::string node;    ///< "/dev/accel/accel0", "/dev/hl0"
};

/// Nothing where no entry has this PCI address; `error` is then that of a folder or file that could
/// not be read, or 0. The layouts are those of Linux 6.7 and of the driver's releases, of 6.3 to
/// 6.6, and the one before.
[[nodiscard]] std::optional<GaudiEntry> gaudi_entry(Evidence& machine,
                                                    const std::string& pci_address, int& error);

/// A virtual machine, by the flag that a hypervisor sets in /proc/cpuinfo (x86 alone); nothing
/// where that can't be read.
[[nodiscard]] std::optional<bool> is_guest(Evidence& machine);

/// A PCI function of a NIC that has an RDMA side, whether or not the kernel shows it. Nothing where
/// there is none; `error` is then that of a file that could not be read, or 0.
[[nodiscard]] std::optional<std::string> rdma_function(Evidence& machine, int& error);

/// Hands PCI devices to virtual machines: vfio-pci drives one. Nothing where that can't be seen.
[[nodiscard]] std::optional<bool> is_virtualisation_host(Evidence& machine);

}  // namespace hbmwire::tools::doctor
