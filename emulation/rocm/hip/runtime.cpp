// SPDX-License-Identifier: MIT
#include "emulation/rocm/hip/runtime.hpp"

#include <sys/mman.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <iterator>

#include "emulation/common/ranges.hpp"
#include "emulation/rocm/testing_hooks.hpp"

namespace hbmwire::emulation::rocm {
namespace {

/// A search for an agent's first pool that has a flag.
struct PoolSearch {
  std::uint32_t wanted_flag = 0;
  hsa_amd_memory_pool_t found{};
  std::size_t bytes = 0;
};

/// Ends the search (INFO_BREAK) if the pool has the flag.
hsa_status_t check_pool(hsa_amd_memory_pool_t pool, void* data) {
  auto& search = *static_cast<PoolSearch*>(data);
  std::uint32_t flags = 0;
  if (hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags) !=
          HSA_STATUS_SUCCESS ||
      (flags & search.wanted_flag) == 0)
    return HSA_STATUS_SUCCESS;
  search.found = pool;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SIZE, &search.bytes);
  return HSA_STATUS_INFO_BREAK;
}

hsa_status_t collect_agent(hsa_agent_t agent, void* data) {
  static_cast<std::vector<hsa_agent_t>*>(data)->push_back(agent);
  return HSA_STATUS_SUCCESS;
}

hipError_t& last_error() {
  thread_local hipError_t error = hipSuccess;
  return error;
}

}  // namespace

std::string HipDevice::pci_address() const {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", domain & 0xffffU, bdf >> 8U & 0xffU,
                bdf >> 3U & 0x1fU, bdf & 7U);
  return text.data();
}

HipRuntime* HipRuntime::instance() {
  static std::mutex mutex;
  static HipRuntime* made = nullptr;
  const std::lock_guard lock(mutex);
  if (made != nullptr) return made;
  if (hsa_init() != HSA_STATUS_SUCCESS) return nullptr;
  auto runtime = std::make_unique<HipRuntime>();
  if (!runtime->discover()) {
    hsa_shut_down();
    return nullptr;
  }
  made = runtime.release();  // never destroyed: threads may still run at exit
  return made;
}

bool HipRuntime::discover() {
  std::vector<hsa_agent_t> agents;
  if (hsa_iterate_agents(&collect_agent, &agents) != HSA_STATUS_SUCCESS) return false;
  for (const hsa_agent_t agent : agents) {
    if (!add_agent(agent)) return false;
  }
  return !devices_.empty();
}

bool HipRuntime::add_agent(hsa_agent_t agent) {
  hsa_device_type_t type = HSA_DEVICE_TYPE_CPU;
  if (hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type) != HSA_STATUS_SUCCESS) return false;
  const bool host = type == HSA_DEVICE_TYPE_CPU;
  PoolSearch search{.wanted_flag = host ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED
                                        : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED};
  if (hsa_amd_agent_iterate_memory_pools(agent, &check_pool, &search) != HSA_STATUS_INFO_BREAK)
    return false;
  if (host) {
    host_ = agent;
    host_pool_ = search.found;
    return true;
  }
  HipDevice device;
  device.agent = agent;
  device.pool = search.found;
  device.memory_bytes = search.bytes;
  std::array<char, 64> name{};
  const bool known =
      hsa_agent_get_info(agent, HSA_AMD_AGENT_INFO_BDFID, &device.bdf) == HSA_STATUS_SUCCESS &&
      hsa_agent_get_info(agent, HSA_AMD_AGENT_INFO_DOMAIN, &device.domain) == HSA_STATUS_SUCCESS &&
      hsa_agent_get_info(agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME, name.data()) == HSA_STATUS_SUCCESS;
  device.name = name.data();
  hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  hsa_amd_agent_memory_pool_get_info(host_, device.pool, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS,
                                     &access);
  device.large_bar = access != HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
  device.null_stream = std::make_shared<Stream>(static_cast<int>(devices_.size()), true);
  if (known) devices_.push_back(std::move(device));
  return known;
}

std::optional<int> HipRuntime::device_of(hsa_agent_t agent) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].agent.handle == agent.handle) return static_cast<int>(i);
  }
  return std::nullopt;
}

void* HipRuntime::allocate_managed(std::size_t bytes) {
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  const std::lock_guard lock(managed_mutex_);
  managed_[std::bit_cast<std::uint64_t>(pages)] = bytes;
  return pages;
}

bool HipRuntime::free_managed(void* base) {
  const std::lock_guard lock(managed_mutex_);
  const auto found = managed_.find(std::bit_cast<std::uint64_t>(base));
  if (found == managed_.end()) return false;
  ::munmap(base, found->second);
  managed_.erase(found);
  return true;
}

void* HipRuntime::find_managed(const void* address) {
  const auto at = std::bit_cast<std::uint64_t>(address);
  const std::lock_guard lock(managed_mutex_);
  const auto after = managed_.upper_bound(at);
  if (after == managed_.begin()) return nullptr;
  const auto& [base, bytes] = *std::prev(after);
  return holds(base, bytes, at, 1) ? std::bit_cast<void*>(base) : nullptr;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

hipError_t remember(hipError_t error) {
  if (error != hipSuccess) last_error() = error;
  return error;
}

hipError_t injected_error(const char* call) {
  switch (hbmwire_rocm_fault(call)) {
    case 0:
      return hipSuccess;
    case EINVAL:
      return hipErrorInvalidValue;
    case ENOMEM:
      return hipErrorOutOfMemory;
    case ENODEV:
      return hipErrorNoDevice;
    case EOPNOTSUPP:
      return hipErrorNotSupported;
    default:
      return hipErrorUnknown;
  }
}

hipError_t error_of(hsa_status_t status) {
  switch (status) {
    case HSA_STATUS_SUCCESS:
      return hipSuccess;
    case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
      return hipErrorOutOfMemory;
    case HSA_STATUS_ERROR_INVALID_ARGUMENT:
    case HSA_STATUS_ERROR_INVALID_ALLOCATION:
    case HSA_STATUS_ERROR_INVALID_AGENT:
      return hipErrorInvalidValue;
    default:
      return hipErrorUnknown;
  }
}

std::optional<hsa_amd_pointer_info_t> pointer_info(const void* address) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  if (hsa_amd_pointer_info(address, &info, nullptr, nullptr, nullptr) != HSA_STATUS_SUCCESS)
    return std::nullopt;
  return info;
}

}  // namespace hbmwire::emulation::rocm

hipError_t hipGetLastError(void) {
  return std::exchange(hbmwire::emulation::rocm::last_error(), hipSuccess);
}

hipError_t hipPeekAtLastError(void) { return hbmwire::emulation::rocm::last_error(); }

hipError_t hipExtGetLastError(void) { return hipGetLastError(); }
