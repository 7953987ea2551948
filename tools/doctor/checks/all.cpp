// SPDX-License-Identifier: MIT
#include <array>

#include "tools/doctor/checks/rules.hpp"

namespace hbmwire::tools::doctor {
namespace {

constexpr Concerns kNothing{};
constexpr Concerns kNics{.nics = true};
constexpr Concerns kCards{.cards = true};
constexpr Concerns kBoth{.nics = true, .cards = true};
constexpr Concerns kPlaces{.nics = true, .cards = true, .places = true};

// For checks of this kernel and its drivers: emulated hardware uses neither.
constexpr Concerns real(Concerns concerns) {
  concerns.real_hardware = true;
  return concerns;
}

}  // namespace

std::span<const Check> all_checks() noexcept {
  static constexpr std::array kChecks{
      Check{"kernel", "the kernel has memory regions of dma-bufs", rules::kernel},
      Check{"kernel-options", "the kernel was built with all that is needed", rules::kernel_options,
            real(kBoth)},
      Check{"kernel-symbols", "the loaded RDMA core imports dma-bufs", rules::kernel_symbols,
            real(kNics)},
      Check{"odp", "the mlx5 driver was built with on-demand paging", rules::odp, kNics},
      Check{"nvidia-driver", "NVIDIA's driver is loaded and exports dma-bufs", rules::nvidia_driver,
            real(kCards)},
      Check{"gaudi-driver", "Gaudi's driver is loaded, and each card operational",
            rules::gaudi_driver, kCards},
      Check{"loaded-modules", "the modules that are loaded are those that are installed",
            rules::loaded_modules, real(kNothing)},
      Check{"nics", "the kernel has an RDMA device", rules::nics, kNics},
      Check{"rdma-core", "libibverbs registers dma-bufs and has each NIC", rules::rdma_core, kNics},
      Check{"nic-imports", "the NIC's driver imports dma-bufs", rules::nic_imports, kBoth},
      Check{"peer-memory", "a GPU's memory has a way to the NIC", rules::peer_memory, real(kBoth)},
      Check{"bars", "a card's memory is in a window of PCI", rules::bars, real(kCards)},
      Check{"topology", "each card has a NIC near it", rules::topology, kPlaces},
      Check{"iommu", "the IOMMU does not translate between devices", rules::iommu, real(kBoth)},
      Check{"acs", "PCI bridges do not send traffic between neighbours to the CPU", rules::acs,
            real(kPlaces)},
      Check{"ats", "devices translate addresses by themselves where the IOMMU is in use",
            rules::ats, real(kPlaces)},
      Check{"port", "each port is active, at one rate with its like", rules::port, kNics},
      Check{"gids", "each port has an address that can be routed", rules::gids, kNics},
      Check{"rdma-cm", "RDMA-CM makes RoCE v2 connections", rules::rdma_cm, kNics},
      Check{"container", "the container was given the devices", rules::container, real(kBoth)},
      Check{"nodes", "this user may open the device nodes", rules::nodes, real(kBoth)},
      Check{"limits", "locked memory and open files are not limited", rules::limits},
      Check{"rdma-cgroup", "the cgroup allows RDMA objects", rules::rdma_cgroup, real(kNics)},
      Check{"rdma-namespace", "this network namespace has the NICs", rules::rdma_namespace,
            real(kNics)},
      Check{"fork", "a process that forks keeps its registrations right", rules::fork, real(kNics)},
      Check{"scatter-to-cqe", "mlx5 does not write to device memory by the CPU",
            rules::scatter_to_cqe, kBoth},
      Check{"link", "each PCI link runs as fast and as wide as both ends can", rules::link,
            kPlaces},
      Check{"payload", "PCI payload and read request sizes fit", rules::payload, real(kPlaces)},
      Check{"mtu", "each port moves 4096 bytes a packet", rules::mtu, kNics},
      Check{"congestion", "few packets are lost or sent again", rules::congestion, kNics},
      Check{"numa", "card, NIC and this process are near one another", rules::numa, real(kBoth)},
      Check{"cpu", "the CPU stays at its full clock", rules::cpu},
      Check{"huge-pages", "host memory can be in huge pages", rules::huge_pages},
      Check{"userfaultfd", "registrations of host memory can be kept", rules::userfaultfd},
  };
  return kChecks;
}

std::vector<Finding> run_checks(Evidence& machine) {
  std::vector<Finding> findings;
  for (const Check& check : all_checks()) {
    for (Finding& finding : check.run(machine)) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace hbmwire::tools::doctor
