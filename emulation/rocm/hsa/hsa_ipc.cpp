// SPDX-License-Identifier: MIT
//
// ROCr: memory of other processes.
#include <bit>
#include <cerrno>
#include <span>

#include "emulation/common/share_handle.hpp"
#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

hsa_status_t status_of(int error) {
  return error == -ENOMEM || error == -EBUSY ? HSA_STATUS_ERROR_OUT_OF_RESOURCES
                                             : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/// A GPU's index in devices(), by its number in the node.
std::optional<unsigned> gpu_of_node(std::uint32_t index) {
  for (unsigned i = 0; i < devices().size(); ++i) {
    if (devices()[i]->gpu().index == index) return i;
  }
  return std::nullopt;
}

/// Finds the agents that may use attached memory: the named ones, or all GPUs if none is named.
hsa_status_t find_users(std::span<const hsa_agent_t> named, std::vector<hsa_agent_t>& agents) {
  for (const hsa_agent_t agent : named) {
    const auto owner = agent_owner(agent);
    if (!owner) return HSA_STATUS_ERROR_INVALID_AGENT;
    if (*owner == kHost) return HSA_STATUS_ERROR_INVALID_ARGUMENT;  // the host sees no GPU memory
    agents.push_back(agent);
  }
  if (!agents.empty()) return HSA_STATUS_SUCCESS;
  for (unsigned i = 0; i < devices().size(); ++i) agents.push_back(agent_handle(i));
  return HSA_STATUS_SUCCESS;
}

}  // namespace

hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t len, hsa_amd_ipc_memory_t* handle) {
  return entry_point("hsa_amd_ipc_memory_create", [&](Session& session) {
    if (ptr == nullptr || handle == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    ShareHandle made{.family = ShareHandle::kRocm};
    const int error = session.allocations().share(address_of(ptr), len, made.key);
    if (error != 0) return status_of(error);
    session.allocations().inspect(address_of(ptr), [&](const AllocationRecord& record) {
      made.gpu = devices()[record.owner]->gpu().index;
    });
    write_handle(made, std::as_writable_bytes(std::span(handle->handle)));
    return HSA_STATUS_SUCCESS;
  });
}

// Returns another address each time, as ROCr may do.
hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t len,
                                       uint32_t num_agents, const hsa_agent_t* mapping_agents,
                                       void** mapped_ptr) {
  return entry_point("hsa_amd_ipc_memory_attach", [&](Session& session) {
    if (handle == nullptr || mapped_ptr == nullptr ||
        (num_agents != 0 && mapping_agents == nullptr))
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    AllocationRecord record;
    record.global_flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    const hsa_status_t known = find_users(std::span(mapping_agents, num_agents), record.accessible);
    if (known != HSA_STATUS_SUCCESS) return known;
    const auto read = read_handle(std::as_bytes(std::span(handle->handle)), ShareHandle::kRocm);
    const auto gpu = read ? gpu_of_node(read->gpu) : std::nullopt;
    if (!gpu) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    int error = 0;
    const std::uint64_t base = session.allocations().attach(*gpu, read->key, len, record, error);
    if (base == 0) return status_of(error);
    *mapped_ptr = std::bit_cast<void*>(base);
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_ipc_memory_detach(void* mapped_ptr) {
  return entry_point("hsa_amd_ipc_memory_detach", [&](Session& session) {
    return session.allocations().detach(address_of(mapped_ptr)) ? HSA_STATUS_SUCCESS
                                                                : HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}
