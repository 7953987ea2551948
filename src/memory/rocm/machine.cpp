// SPDX-License-Identifier: MIT
#include "memory/rocm/machine.hpp"

#include <fcntl.h>

#include <array>
#include <bit>
#include <cstdio>
#include <mutex>

#include "base/forks.hpp"
#include "base/sysfs.hpp"

namespace hbmwire::memory::rocm {

namespace {

/// The agents that a visitor of ROCr's lists has collected.
struct Agents {
  std::size_t count = 0;
  std::vector<Agent> all;
};

int count_agent(Agent /*agent*/, void* data) {
  ++static_cast<Agents*>(data)->count;
  return kHsaSuccess;
}

/// Never allocates, because no exception may pass through ROCr.
int collect_agent(Agent agent, void* data) {
  auto& agents = *static_cast<Agents*>(data);
  if (agents.all.size() == agents.count) return kHsaInfoBreak;
  agents.all.push_back(agent);
  return kHsaSuccess;
}

/// The argument and the result of look_at_pool().
struct PoolSearch {
  const Hsa* hsa = nullptr;
  Pool found;
  std::uint64_t size_bytes = 0;
  std::uint64_t granule_bytes = 0;
};

/// Finds the pool of a GPU's own memory: global, coarse-grained, open to all allocations.
int look_at_pool(Pool pool, void* data) {
  auto& search = *static_cast<PoolSearch*>(data);
  const auto ask = [&](int attribute, auto& value) {
    return search.hsa->pool_get_info(pool, attribute, &value) == kHsaSuccess;
  };
  std::uint32_t segment = 0;
  std::uint32_t flags = 0;
  bool allowed = false;
  std::size_t size = 0;
  std::size_t granule = 0;
  const bool known = ask(kPoolSegment, segment) && segment == kSegmentGlobal &&
                     ask(kPoolGlobalFlags, flags) && ask(kPoolAllocAllowed, allowed) &&
                     ask(kPoolSize, size) && ask(kPoolAllocGranule, granule);
  if (!known || !allowed || (flags & kCoarseGrained) == 0) return kHsaSuccess;
  search.found = pool;
  search.size_bytes = size;
  search.granule_bytes = granule;
  return kHsaInfoBreak;
}

std::string agent_text(const Hsa& hsa, Agent agent, int attribute) {
  std::array<char, kAgentNameBytes + 1> text{};
  if (hsa.agent_get_info(agent, attribute, text.data()) != kHsaSuccess) return {};
  return text.data();
}

/// "dddd:bb:dd.f"; empty if ROCr does not tell.
std::string pci_address_of(const Hsa& hsa, Agent agent) {
  std::uint32_t bdf = 0;
  std::uint32_t domain = 0;
  if (hsa.agent_get_info(agent, kAgentBdfId, &bdf) != kHsaSuccess) return {};
  // Releases without the second query support only one domain.
  if (hsa.agent_get_info(agent, kAgentDomain, &domain) != kHsaSuccess) domain = 0;
  // The bus, then 5 bits of the device and 3 of the function.
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", domain, (bdf >> 8U) & 0xffU,
                (bdf >> 3U) & 0x1fU, bdf & 7U);
  return text.data();
}

Error forbidden(const Gpu& gpu) {
  return make_error(Errc::not_supported, Stage::export_dmabuf,
                    "HBMWIRE_ROCM_DMABUF=no has this memory registered otherwise", gpu.device.name,
                    Hint::dmabuf_forbidden);
}

}  // namespace

Result<std::shared_ptr<Runtime>> Runtime::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Runtime> current;
  const std::scoped_lock lock(mutex);
  if (auto runtime = current.lock()) return runtime;
  // A child by fork(2) never destroys it, because ROCr would wait for threads that only the parent
  // has.
  const std::shared_ptr<Runtime> runtime(new Runtime, [made = MadeHere{}](Runtime* one) {
    if (!made.is_inherited()) delete one;
  });
  HBMWIRE_TRY(runtime->hsa.initialize());
  current = runtime;
  return runtime;
}

Result<std::shared_ptr<const Machine>> Machine::look(const Settings::Rocm& settings) {
  HBMWIRE_TRY_ASSIGN(auto runtime, Runtime::shared());
  auto machine = std::make_shared<Machine>(std::move(runtime), settings.dmabuf);
  HBMWIRE_TRY(machine->add_gpus());
  machine->decide_paths(settings);
  return machine;
}

Result<void> Machine::add_gpus() {
  Agents agents;
  const auto each = [&](auto* visit) -> Result<void> {
    const int status = hsa().iterate_agents(visit, &agents);
    if (status == kHsaSuccess || status == kHsaInfoBreak) return {};
    return tl::make_unexpected(
        hsa_error(Stage::probe, "hsa_iterate_agents", status, "rocm", Hint::no_rocm_device));
  };
  HBMWIRE_TRY(each(&count_agent));
  agents.all.reserve(agents.count);
  HBMWIRE_TRY(each(&collect_agent));
  for (const Agent agent : agents.all) {
    std::uint32_t type = 0;
    if (const int status = hsa().agent_get_info(agent, kAgentDevice, &type); status != kHsaSuccess)
      return tl::make_unexpected(hsa_error(Stage::probe, "hsa_agent_get_info", status, "rocm"));
    if (type == kDeviceCpu && cpu_ == Agent{}) cpu_ = agent;
    if (type == kDeviceGpu) HBMWIRE_TRY(add_gpu(agent));
  }
  if (!gpus_.empty()) return {};
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::probe, "ROCr shows no GPU", {}, Hint::no_rocm_device));
}

Result<void> Machine::add_gpu(Agent agent) {
  PoolSearch search{.hsa = &hsa(), .found = {}, .size_bytes = 0, .granule_bytes = 0};
  const int status = hsa().iterate_pools(agent, &look_at_pool, &search);
  if (status != kHsaSuccess && status != kHsaInfoBreak) {
    return tl::make_unexpected(
        hsa_error(Stage::probe, "hsa_amd_agent_iterate_memory_pools", status, "rocm"));
  }
  Gpu gpu;
  gpu.agent = agent;
  gpu.pool = search.found;
  gpu.device.type = MemoryType::rocm;
  gpu.device.pci_address = pci_address_of(hsa(), agent);
  std::string model = agent_text(hsa(), agent, kAgentProductName);
  if (model.empty()) model = agent_text(hsa(), agent, kAgentName);
  gpu.device.name = model + " " + gpu.device.pci_address;
  gpu.device.driven_by = "ROCr";
  gpu.device.size_bytes = search.size_bytes;
  gpu.device.page_bytes = search.granule_bytes;
  gpu.device.numa_node = numa_node_of_pci(gpu.device.pci_address);
  gpus_.push_back(std::move(gpu));
  return {};
}

void Machine::decide_paths(const Settings::Rocm& settings) {
  const auto client = peer_memory_client();
  const Kernel kernel(settings.kernel_config);
  for (Gpu& gpu : gpus_) {
    if (dmabuf_ != Use::no) {
      gpu.refusal = missing_requirement(*this, gpu, kernel);
      if (!gpu.refusal || dmabuf_ == Use::yes) continue;
    }
    if (client) {
      gpu.path = Path::peer_memory;
      gpu.no_dmabuf = gpu.refusal ? *gpu.refusal : forbidden(gpu);
      gpu.refusal.reset();
    } else if (!gpu.refusal) {
      gpu.refusal = make_error(Errc::not_supported, Stage::register_memory,
                               "amdgpu's peer-memory client (memory_peers/amdkfd) is not there",
                               gpu.device.name, Hint::dmabuf_forbidden);
    }
  }
}

Result<std::optional<Place>> Machine::place_of(std::uint64_t address) const {
  PointerInfo info;
  const void* const pointer = std::bit_cast<const void*>(address);
  if (const int status = hsa().pointer_info(pointer, &info, nullptr, nullptr, nullptr);
      status != kHsaSuccess)
    return tl::make_unexpected(hsa_error(Stage::probe, "hsa_amd_pointer_info", status, "rocm"));
  // 0: an address that ROCr does not know.
  if (info.type == 0 || info.type == kPointerLocked) return std::nullopt;
  for (const Gpu& gpu : gpus_) {
    if (gpu.agent != info.owner) continue;
    return Place{.gpu = &gpu,
                 .base = std::bit_cast<std::uint64_t>(info.agent_base),
                 .size_bytes = info.size_bytes,
                 .exportable = info.type == kPointerHsa};
  }
  return std::nullopt;  // the CPU's: pinned host memory
}

AddressInfo Machine::describe(const Place& place) const {
  const Gpu& gpu = *place.gpu;
  AddressInfo info{.device = &gpu.device,
                   .base_address = place.base,
                   .size_bytes = place.size_bytes,
                   .generation = place.exportable ? allocations().generation_of(place.base) : 0,
                   .path = gpu.path,
                   .no_dmabuf = gpu.no_dmabuf,
                   .refusal = gpu.refusal};
  if (own_.visit(place.base, [](auto&&...) {})) {
    info.lifetime = Lifetime::allocation;
  } else if (info.generation != 0) {
    info.lifetime = Lifetime::generation;
  }
  if (info.refusal) return info;
  if (!place.exportable) {
    info.refusal = make_error(Errc::not_supported, Stage::export_dmabuf,
                              "ROCr exports only what it allocated itself in this process",
                              gpu.device.name, Hint::rocm_foreign_memory);
  } else if (dmabuf_ == Use::attempt && gpu.path == Path::zero_copy && peer_memory_client()) {
    info.otherwise = Path::peer_memory;
  }
  return info;
}

Result<ExportedBlock> Machine::export_block(const Place& place) const {
  const void* const base = std::bit_cast<const void*>(place.base);
  const auto make = [&]() -> Result<ExportedBlock> {
    int fd = -1;
    std::uint64_t offset = 0;
    const bool second = hsa().export_dmabuf_v2 != nullptr;
    const int status =
        second ? hsa().export_dmabuf_v2(base, place.size_bytes, &fd, &offset, kDmabufByPcie)
               : hsa().export_dmabuf(base, place.size_bytes, &fd, &offset);
    if (status != kHsaSuccess) {
      return tl::make_unexpected(
          hsa_error(Stage::export_dmabuf,
                    second ? "hsa_amd_portable_export_dmabuf_v2" : "hsa_amd_portable_export_dmabuf",
                    status, place.gpu->device.name, Hint::rocm_dmabuf_not_supported));
    }
    // hsa_amd_portable_close_dmabuf() is close(2), which Fd calls.
    auto owner = std::make_shared<const Fd>(Fd{fd});
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return ExportedBlock{.fd = std::move(owner), .offset_bytes = offset};
  };
  const std::uint64_t generation = allocations().generation_of(place.base);
  return allocations().dmabuf_of(place.base, generation, make);
}

}  // namespace hbmwire::memory::rocm
