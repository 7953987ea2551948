// SPDX-License-Identifier: MIT
//
// ROCr: information about an address, the agents that may use it, and its dma-buf.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "emulation/common/ranges.hpp"
#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

/// The facts about an address. The type is UNKNOWN for memory that ROCr does not know.
struct PointerFacts {
  hsa_amd_pointer_info_t info{};
  std::vector<hsa_agent_t> accessible;
};

PointerFacts facts_of(Session& session, std::uint64_t address) {
  PointerFacts facts;
  const bool allocated =
      session.allocations().inspect(address, [&](const AllocationRecord& record) {
        if (!holds(record.base, record.bytes, address, 1)) return;
        facts.info.type = record.attached ? HSA_EXT_POINTER_TYPE_IPC : HSA_EXT_POINTER_TYPE_HSA;
        facts.info.agentBaseAddress = std::bit_cast<void*>(record.base);
        facts.info.hostBaseAddress = facts.info.agentBaseAddress;
        facts.info.sizeInBytes = record.bytes;
        facts.info.userData = record.user_data;
        facts.info.agentOwner = agent_handle(record.owner);
        facts.info.global_flags = record.global_flags;
        facts.accessible = record.accessible;
      });
  if (allocated) return facts;
  if (const auto lock = session.allocations().find_lock(address)) {
    facts.info.type = HSA_EXT_POINTER_TYPE_LOCKED;
    facts.info.agentBaseAddress = std::bit_cast<void*>(lock->seen_at);
    facts.info.hostBaseAddress = std::bit_cast<void*>(lock->host);
    facts.info.sizeInBytes = lock->bytes;
    facts.info.agentOwner = agent_handle(kHost);
    facts.info.global_flags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    for (unsigned i = 0; i < devices().size(); ++i) facts.accessible.push_back(agent_handle(i));
  }
  return facts;
}

hsa_status_t give_accessible(const PointerFacts& facts, void* (*allocate)(size_t), uint32_t* count,
                             hsa_agent_t** agents) {
  const std::size_t bytes = facts.accessible.size() * sizeof(hsa_agent_t);
  *agents = static_cast<hsa_agent_t*>(allocate(bytes));
  if (*agents == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  std::copy(facts.accessible.begin(), facts.accessible.end(), *agents);
  *count = static_cast<uint32_t>(facts.accessible.size());
  return HSA_STATUS_SUCCESS;
}

hsa_status_t export_fragment(const AllocationRecord& record, std::uint64_t address, int& fd,
                             std::uint64_t& offset) {
  if (record.owner == kHost) return HSA_STATUS_ERROR_INVALID_AGENT;
  if (record.attached) return HSA_STATUS_ERROR_INVALID_ALLOCATION;  // not this process'
  const Block& block = *record.fragment.block;
  const int exported =
      block.memory().export_dmabuf("hbmwire-rocm-dmabuf", std::span(&block.range(), 1));
  if (exported < 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  fd = exported;
  offset = address - block.base();
  return HSA_STATUS_SUCCESS;
}

/// An export through PCIe needs a large BAR.
bool lacks_large_bar(const AllocationRecord& record, std::uint64_t flags) {
  return (flags & HSA_AMD_DMABUF_MAPPING_TYPE_PCIE) != 0 && record.owner != kHost &&
         !devices()[record.owner]->gpu().large_bar;
}

hsa_status_t export_dmabuf(const char* call, const void* ptr, size_t size, int* dmabuf,
                           uint64_t* offset, std::uint64_t flags) {
  return entry_point(call, [&](Session& session) {
    if (ptr == nullptr || dmabuf == nullptr || offset == nullptr || size == 0)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ALLOCATION;
    session.allocations().visit(address_of(ptr), [&](const AllocationRecord& record) {
      // The range may go on to the end of the allocation's last page.
      if (!holds(record.base, record.occupied_bytes, address_of(ptr), size)) return;
      status = lacks_large_bar(record, flags)
                   ? HSA_STATUS_ERROR_NOT_SUPPORTED
                   : export_fragment(record, address_of(ptr), *dmabuf, *offset);
    });
    return status;
  });
}

}  // namespace

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info,
                                  void* (*alloc)(size_t), uint32_t* num_agents_accessible,
                                  hsa_agent_t** accessible) {
  return entry_point("hsa_amd_pointer_info", [&](Session& session) {
    if (ptr == nullptr || info == nullptr || info->size == 0)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    PointerFacts facts = facts_of(session, address_of(ptr));
    facts.info.size = std::min<uint32_t>(info->size, sizeof facts.info);
    std::memcpy(info, &facts.info, facts.info.size);
    const bool wants_agents =
        alloc != nullptr && num_agents_accessible != nullptr && accessible != nullptr;
    if (!wants_agents || facts.info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) return HSA_STATUS_SUCCESS;
    return give_accessible(facts, alloc, num_agents_accessible, accessible);
  });
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void* ptr, void* userdata) {
  return entry_point("hsa_amd_pointer_info_set_userdata", [&](Session& session) {
    bool set = false;
    session.allocations().visit(address_of(ptr), [&](AllocationRecord& record) {
      set = record.base == address_of(ptr);
      if (set) record.user_data = userdata;
    });
    return set ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}

// Agents that are not named lose access, including the CPU.
hsa_status_t hsa_amd_agents_allow_access(uint32_t num_agents, const hsa_agent_t* agents,
                                         const uint32_t* flags, const void* ptr) {
  return entry_point("hsa_amd_agents_allow_access", [&](Session& session) {
    if (num_agents == 0 || agents == nullptr || flags != nullptr || ptr == nullptr)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    bool names_host = false;
    for (const hsa_agent_t agent : std::span(agents, num_agents)) {
      const auto owner = agent_owner(agent);
      if (!owner) return HSA_STATUS_ERROR_INVALID_AGENT;
      names_host = names_host || *owner == kHost;
    }
    hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
    session.allocations().visit(address_of(ptr), [&](AllocationRecord& record) {
      const bool of_gpu = record.owner != kHost;
      // The CPU reaches a GPU's memory only through a large BAR.
      const bool possible = !of_gpu || !names_host || devices()[record.owner]->gpu().large_bar;
      const bool done = possible && (!of_gpu || show_to_cpu(record, names_host));
      status = done ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
      if (done) record.accessible.assign(agents, agents + num_agents);
    });
    return status;
  });
}

hsa_status_t hsa_amd_register_deallocation_callback(void* ptr,
                                                    hsa_amd_deallocation_callback_t callback,
                                                    void* user_data) {
  return entry_point("hsa_amd_register_deallocation_callback", [&](Session& session) {
    if (ptr == nullptr || callback == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const bool known = session.allocations().visit(address_of(ptr), [&](AllocationRecord& record) {
      record.notifiers.push_back({.address = ptr, .callback = callback, .data = user_data});
    });
    return known ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
  });
}

hsa_status_t hsa_amd_deregister_deallocation_callback(void* ptr,
                                                      hsa_amd_deallocation_callback_t callback) {
  return entry_point("hsa_amd_deregister_deallocation_callback", [&](Session& session) {
    bool removed = false;
    session.allocations().visit(address_of(ptr), [&](AllocationRecord& record) {
      const auto found = std::ranges::find_if(record.notifiers, [&](const Notifier& one) {
        return one.address == ptr && one.callback == callback;
      });
      removed = found != record.notifiers.end();
      if (removed) record.notifiers.erase(found);
    });
    return removed ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
  });
}

hsa_status_t hsa_amd_portable_export_dmabuf(const void* ptr, size_t size, int* dmabuf,
                                            uint64_t* offset) {
  return export_dmabuf("hsa_amd_portable_export_dmabuf", ptr, size, dmabuf, offset,
                       HSA_AMD_DMABUF_MAPPING_TYPE_NONE);
}

hsa_status_t hsa_amd_portable_export_dmabuf_v2(const void* ptr, size_t size, int* dmabuf,
                                               uint64_t* offset, uint64_t flags) {
  return export_dmabuf("hsa_amd_portable_export_dmabuf_v2", ptr, size, dmabuf, offset, flags);
}

hsa_status_t hsa_amd_portable_close_dmabuf(int dmabuf) {
  return entry_point("hsa_amd_portable_close_dmabuf", [&](Session&) {
    return ::close(dmabuf) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_RESOURCE_FREE;
  });
}
