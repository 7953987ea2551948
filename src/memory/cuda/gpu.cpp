// SPDX-License-Identifier: MIT
#include "memory/cuda/gpu.hpp"

#include <algorithm>
#include <cctype>

#include "base/sysfs.hpp"

namespace hbmwire::memory::cuda {

namespace {

// The size of cuMemAlloc's blocks and cuMemCreate's granules. The driver tells it only for a given
// kind of memory.
constexpr std::uint64_t kPageBytes = 2ULL << 20U;

/// The driver's module, and its predecessor by Mellanox outside the kernel tree.
constexpr const char* kPeerMemoryModules[] = {"nvidia_peermem", "nv_peer_mem"};

bool has_peer_memory() {
  return std::ranges::any_of(kPeerMemoryModules,
                             [](const char* name) { return has_kernel_module(name); });
}

int attribute(const Driver& driver, int device, int which) {
  int value = 0;
  // A driver that does not know an attribute does not have the feature.
  return driver.device_get_attribute(&value, which, device) == kSuccess ? value : 0;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Shortens "NVIDIA H100 80GB HBM3" to "H100", because names are parts of messages.
std::string short_name(std::string_view name) {
  constexpr std::string_view kVendor = "NVIDIA ";
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  return std::string(name.substr(0, name.find(' ')));
}

Result<Gpu> describe_gpu(const Driver& driver, int ordinal) {
  const auto must = [](const char* call, int result) {
    return check(Stage::probe, call, result, "cuda");
  };
  Gpu gpu;
  char name[100] = {};
  char address[32] = {};
  std::size_t bytes = 0;
  HBMWIRE_TRY(must("cuDeviceGet", driver.device_get(&gpu.device, ordinal)));
  HBMWIRE_TRY(must("cuDeviceGetName", driver.device_get_name(name, sizeof name, gpu.device)));
  HBMWIRE_TRY(must("cuDeviceGetPCIBusId",
                   driver.device_get_pci_bus_id(address, sizeof address, gpu.device)));
  HBMWIRE_TRY(must("cuDeviceTotalMem", driver.device_total_mem(&bytes, gpu.device)));
  gpu.integrated = attribute(driver, gpu.device, kIntegrated) != 0;
  gpu.dmabuf =
      driver.mem_get_handle != nullptr && attribute(driver, gpu.device, kDmabufSupported) != 0;
  gpu.host_flush = driver.flush_writes != nullptr &&
                   (attribute(driver, gpu.device, kFlushWritesOptions) & kFlushByHost) != 0;
  gpu.info.type = MemoryType::cuda;
  gpu.info.pci_address = lower(address);  // the driver uses upper-case digits, sysfs does not
  gpu.info.name = short_name(name) + " " + gpu.info.pci_address;
  gpu.info.driven_by = "CUDA";
  gpu.info.size_bytes = bytes;
  gpu.info.page_bytes = kPageBytes;
  gpu.info.numa_node = numa_node_of_pci(gpu.info.pci_address);
  return gpu;
}

}  // namespace

Result<std::vector<Gpu>> find_gpus(const Driver& driver) {
  if (const int result = driver.init(0); result != kSuccess) {
    const Hint hint = result == kNoDevice ? Hint::no_cuda_device : Hint::no_cuda;
    return tl::make_unexpected(cuda_error(Stage::probe, "cuInit", result, "cuda", hint));
  }
  int count = 0;
  HBMWIRE_TRY(check(Stage::probe, "cuDeviceGetCount", driver.device_get_count(&count), "cuda"));
  if (count == 0) {
    return tl::make_unexpected(
        make_error(Errc::not_found, Stage::probe, "no NVIDIA GPU found", {}, Hint::no_cuda_device));
  }
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    HBMWIRE_TRY_ASSIGN(Gpu gpu, describe_gpu(driver, ordinal));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Result<const Gpu*> choose_gpu(const std::vector<Gpu>& gpus, const std::string& name) {
  if (name.empty()) return &gpus.front();
  const std::string wanted = lower(name);
  for (std::size_t ordinal = 0; ordinal < gpus.size(); ++ordinal) {
    const Gpu& gpu = gpus[ordinal];
    if (std::to_string(ordinal) == wanted || gpu.info.pci_address == wanted) return &gpu;
  }
  return tl::make_unexpected(make_error(Errc::not_found, Stage::probe, "no NVIDIA GPU of this name",
                                        name, Hint::no_such_device));
}

std::string describe_library(const Driver& driver) {
  int version = 0;
  if (driver.driver_get_version(&version) != kSuccess) return "libcuda.so.1";
  // 12080 is 12.8.
  return "libcuda.so.1, driver API " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

Reach reach_of(const Gpu& gpu, const Settings& settings, bool capable) {
  const auto error = [&](const char* why, Hint hint) {
    return make_error(Errc::not_supported, Stage::export_dmabuf, why, gpu.info.name, hint);
  };
  const auto refuse = [&](Path path, const char* why, Hint hint) {
    return Reach{.path = path, .refusal = error(why, hint)};
  };
  if (!capable) {
    return refuse(Path::zero_copy, "this memory was made without gpuDirectRDMACapable",
                  Hint::cuda_dmabuf_not_supported);
  }
  const Use dmabuf = settings.cuda.dmabuf;
  if (dmabuf != Use::no && gpu.dmabuf) {
    Reach reach{.path = Path::zero_copy};
    if (dmabuf == Use::attempt && has_peer_memory()) reach.otherwise = Path::peer_memory;
    return reach;
  }
  const Error no_dmabuf =
      dmabuf == Use::no
          ? error("HBMWIRE_CUDA_DMABUF=no has this memory registered otherwise",
                  Hint::dmabuf_forbidden)
          : error("the driver exports no dma-bufs of this GPU", Hint::cuda_dmabuf_not_supported);
  if (dmabuf == Use::yes) return Reach{.path = Path::zero_copy, .refusal = no_dmabuf};
  if (has_peer_memory()) return Reach{.path = Path::peer_memory, .no_dmabuf = no_dmabuf};
  return refuse(Path::peer_memory, "the kernel module nvidia_peermem is not loaded",
                dmabuf == Use::no ? Hint::dmabuf_forbidden : Hint::cuda_dmabuf_not_supported);
}

}  // namespace hbmwire::memory::cuda
