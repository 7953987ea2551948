// SPDX-License-Identifier: MIT
//
// ROCr: host memory that GPUs may access, and their copies.
#include <sys/mman.h>

#include <bit>
#include <cstring>
#include <span>

#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

/// Whether the whole range is mapped, so that the driver could pin it.
bool is_mapped(std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  unsigned char residency = 0;
  for (std::uint64_t at = address / kPage * kPage; at < address + bytes; at += kPage) {
    if (::mincore(std::bit_cast<void*>(at), 1, &residency) != 0) return false;
  }
  return true;
}

CopyEngines::Direction direction_of(unsigned to, unsigned from) {
  if (from == kHost) return CopyEngines::Direction::to_gpu;
  return to == kHost ? CopyEngines::Direction::to_host : CopyEngines::Direction::within;
}

}  // namespace

hsa_status_t hsa_amd_memory_lock(void* host_ptr, size_t size, hsa_agent_t* agents, int num_agent,
                                 void** agent_ptr) {
  return entry_point("hsa_amd_memory_lock", [&](Session& session) {
    if (size == 0 || host_ptr == nullptr || agent_ptr == nullptr)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *agent_ptr = nullptr;
    if ((agents == nullptr) != (num_agent == 0)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    for (const hsa_agent_t agent : std::span(agents, static_cast<std::size_t>(num_agent))) {
      if (!agent_owner(agent)) return HSA_STATUS_ERROR_INVALID_AGENT;
    }
    const std::uint64_t host = address_of(host_ptr);
    const bool own = session.allocations().visit(host, [](AllocationRecord&) {});
    if (own || !is_mapped(host, size)) return HSA_STATUS_ERROR;
    const std::uint64_t seen_at = session.allocations().lock(host, size);
    if (seen_at == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    *agent_ptr = std::bit_cast<void*>(seen_at);
    return HSA_STATUS_SUCCESS;
  });
}

// As in ROCr, unlocking memory that is not locked is not reported.
hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  return entry_point("hsa_amd_memory_unlock", [&](Session& session) {
    if (host_ptr != nullptr) session.allocations().unlock(address_of(host_ptr));
    return HSA_STATUS_SUCCESS;
  });
}

// Addresses are looked up when the copy is executed.
hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src,
                                       hsa_agent_t src_agent, size_t size, uint32_t num_dep_signals,
                                       const hsa_signal_t* dep_signals,
                                       hsa_signal_t completion_signal) {
  return entry_point("hsa_amd_memory_async_copy", [&](Session& session) {
    if (dst == nullptr || src == nullptr || (num_dep_signals == 0) != (dep_signals == nullptr))
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    const auto to = agent_owner(dst_agent);
    const auto from = agent_owner(src_agent);
    if (!to || !from || (*to == kHost && *from == kHost)) return HSA_STATUS_ERROR_INVALID_AGENT;
    CopyJob job{
        .to = address_of(dst), .from = address_of(src), .bytes = size, .after = {}, .done = {}};
    for (const hsa_signal_t signal : std::span(dep_signals, num_dep_signals)) {
      job.after.push_back(session.signals().find(signal));
      if (!job.after.back()) return HSA_STATUS_ERROR_INVALID_SIGNAL;
    }
    job.done = session.signals().find(completion_signal);
    if (!job.done) return HSA_STATUS_ERROR_INVALID_SIGNAL;
    if (size == 0) return HSA_STATUS_SUCCESS;
    session.engines(*from == kHost ? *to : *from).post(direction_of(*to, *from), std::move(job));
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  return entry_point("hsa_amd_memory_fill", [&](Session& session) {
    if (ptr == nullptr || address_of(ptr) % sizeof(value) != 0)
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    std::vector<std::uint32_t> pattern(count, value);
    const std::uint64_t bytes = count * sizeof(value);
    const EngineView from{
        .memory = nullptr, .offset = 0, .host = reinterpret_cast<std::byte*>(pattern.data())};
    // A fill has no source, so the target stands for it.
    const bool filled = session.allocations().with_views(
        address_of(ptr), address_of(ptr), bytes,
        [&](const EngineView& to, const EngineView&) { move_bytes(to, from, bytes); });
    return filled ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
  });
}
