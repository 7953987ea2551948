// SPDX-License-Identifier: MIT
//
// ROCr: pools, and allocations from them.
#include <unistd.h>

#include <bit>

#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGroupBytes = 64 << 10;

std::uint32_t flags_of(const PoolId& pool) {
  if (pool.kind == PoolKind::group) return 0;
  return pool.kind == PoolKind::fine ? HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED
                                     : HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
}

std::size_t size_of(const PoolId& pool) {
  if (pool.kind == PoolKind::group) return kGroupBytes;
  if (pool.owner == kHost) {
    return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
           static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
  const GpuMemory* const memory = devices()[pool.owner]->memory();
  return memory == nullptr ? 0 : memory->size_bytes();
}

hsa_status_t pool_info(const PoolId& pool, hsa_amd_memory_pool_info_t attribute, void* value) {
  const bool global = pool.kind != PoolKind::group;
  switch (attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
      return answer(value, global ? HSA_AMD_SEGMENT_GLOBAL : HSA_AMD_SEGMENT_GROUP);
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      return answer(value, flags_of(pool));
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
      return answer(value, size_of(pool));
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
      return answer(value, global ? size_of(pool) : std::size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
      return answer(value, global);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return answer(value, global ? kPage : std::size_t{0});
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE:
      return answer(value, pool.owner == kHost ? kPage : std::size_t{GpuMemory::kGranule});
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
      return answer(value, pool.owner == kHost);
    case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
      return answer(value, pool.owner == kHost ? HSA_AMD_MEMORY_POOL_LOCATION_CPU
                                               : HSA_AMD_MEMORY_POOL_LOCATION_GPU);
    default:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

hsa_status_t hsa_amd_agent_iterate_memory_pools(
    hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t memory_pool, void* data),
    void* data) {
  return entry_point("hsa_amd_agent_iterate_memory_pools", [&](Session&) {
    const auto owner = agent_owner(agent);
    if (!owner) return HSA_STATUS_ERROR_INVALID_AGENT;
    if (callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = HSA_STATUS_SUCCESS;
    // The chip's own pool comes first, so a program has to look for global memory.
    const auto kinds = *owner == kHost ? std::array{PoolKind::fine, PoolKind::coarse}
                                       : std::array{PoolKind::group, PoolKind::coarse};
    for (const PoolKind kind : kinds) {
      if (status == HSA_STATUS_SUCCESS)
        status = callback(pool_handle({.owner = *owner, .kind = kind}), data);
    }
    return status;
  });
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t memory_pool,
                                          hsa_amd_memory_pool_info_t attribute, void* value) {
  return entry_point("hsa_amd_memory_pool_get_info", [&](Session&) {
    const auto pool = pool_of(memory_pool);
    if (!pool) return HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
    if (value == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return pool_info(*pool, attribute, value);
  });
}

// With a large BAR the CPU may be given access to a GPU's memory (hsa_amd_agents_allow_access).
hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent,
                                                hsa_amd_memory_pool_t memory_pool,
                                                hsa_amd_agent_memory_pool_info_t attribute,
                                                void* value) {
  return entry_point("hsa_amd_agent_memory_pool_get_info", [&](Session&) {
    const auto owner = agent_owner(agent);
    const auto pool = pool_of(memory_pool);
    if (!owner) return HSA_STATUS_ERROR_INVALID_AGENT;
    if (!pool) return HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
    if (value == nullptr || attribute != HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    if (*owner == pool->owner) return answer(value, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
    const bool hidden =
        *owner == kHost && pool->owner != kHost && !devices()[pool->owner]->gpu().large_bar;
    return answer(value, pool->kind == PoolKind::group || hidden
                             ? HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED
                             : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
  });
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t memory_pool, size_t size,
                                          uint32_t /*flags*/, void** ptr) {
  return entry_point("hsa_amd_memory_pool_allocate", [&](Session& session) {
    if (size == 0 || ptr == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const auto pool = pool_of(memory_pool);
    if (!pool) return HSA_STATUS_ERROR_INVALID_MEMORY_POOL;
    if (pool->kind == PoolKind::group || size > size_of(*pool))
      return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    AllocationRecord record;
    record.global_flags = flags_of(*pool);
    record.accessible = {agent_handle(pool->owner)};
    const std::uint64_t base = session.allocations().allocate(pool->owner, size, record);
    if (base == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *ptr = std::bit_cast<void*>(base);
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  return entry_point("hsa_amd_memory_pool_free", [&](Session& session) {
    if (ptr == nullptr) return HSA_STATUS_SUCCESS;
    const auto base = std::bit_cast<std::uint64_t>(ptr);
    if (session.allocations().free(base)) return HSA_STATUS_SUCCESS;
    bool attached = false;
    session.allocations().inspect(base, [&](const AllocationRecord& record) {
      attached = record.attached && record.base == base;
    });
    return attached ? HSA_STATUS_ERROR_INVALID_ARGUMENT : HSA_STATUS_ERROR_INVALID_ALLOCATION;
  });
}
