// SPDX-License-Identifier: MIT
//
// The requirements for a NIC to use a GPU's dma-buf, each checked where it is known. If one is
// missing, the export or the registration may succeed all the same. amdgpu then moves the memory to
// the host at the first transfer, which is slow, and wrong for kernels that run meanwhile. So they
// are checked before.
#include "memory/rocm/machine.hpp"

namespace hbmwire::memory::rocm {

namespace {

/// Whether ROCr's driver can export dma-bufs (KFD 1.12 and newer).
Known driver_exports(const Hsa& hsa) {
  bool supported = false;
  if (hsa.system_get_info(kSystemDmabufSupported, &supported) != kHsaSuccess) return Known::unknown;
  return supported ? Known::yes : Known::no;
}

/// Whether the CPU can access the GPU's memory, which is so exactly if PCI exposes all of it.
Known large_bar_of(const Machine& machine, const Gpu& gpu) {
  std::uint32_t access = kAccessNeverAllowed;
  const int status =
      machine.hsa().agent_pool_get_info(machine.cpu(), gpu.pool, kAgentPoolAccess, &access);
  if (status == kHsaSuccess) return access == kAccessNeverAllowed ? Known::no : Known::yes;
  return large_bar(gpu.device.pci_address, gpu.device.size_bytes);
}

}  // namespace

std::optional<Error> missing_requirement(const Machine& machine, const Gpu& gpu,
                                         const Kernel& kernel) {
  const Hsa& hsa = machine.hsa();
  const auto missing = [&](const char* what) {
    return make_error(Errc::not_supported, Stage::export_dmabuf, what, gpu.device.name,
                      Hint::rocm_dmabuf_not_supported);
  };
  if (hsa.export_dmabuf == nullptr && hsa.export_dmabuf_v2 == nullptr)
    return missing("this release of ROCr exports no dma-bufs");
  if (driver_exports(hsa) == Known::no) return missing("the amdgpu driver exports no dma-bufs");
  if (kernel.p2pdma() == Known::no)
    return missing("the kernel was built without CONFIG_PCI_P2PDMA");
  if (kernel.move_notify() == Known::no)
    return missing("the kernel was built without CONFIG_DMABUF_MOVE_NOTIFY");
  if (large_bar_of(machine, gpu) == Known::no)
    return missing("PCI shows only a part of the GPU's memory: no large BAR");
  return std::nullopt;
}

}  // namespace hbmwire::memory::rocm
