// SPDX-License-Identifier: MIT
//
// ROCr: signals, host memory that GPUs may touch, and the copies that they do.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>

#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation;
using namespace hbmwire::emulation::rocm;

namespace {

std::shared_ptr<Signal> find_signal(hsa_signal_t signal) {
  const auto session = Runtime::instance().session();
  return session ? session->signals().find(signal) : nullptr;
}

/// Whether there is memory at all of the range, for the driver to pin.
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

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
                               const hsa_agent_t* consumers, hsa_signal_t* signal) {
  return entry_point("hsa_signal_create", [&](Session& session) {
    if (signal == nullptr || (num_consumers > 0 && consumers == nullptr))
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *signal = session.signals().add(std::make_shared<Signal>(initial_value));
    return HSA_STATUS_SUCCESS;
  });
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  return entry_point("hsa_signal_destroy", [&](Session& session) {
    if (signal.handle == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return session.signals().remove(signal) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_SIGNAL;
  });
}

hsa_signal_value_t hsa_signal_load_scacquire(hsa_signal_t signal) {
  const auto found = find_signal(signal);
  return found ? found->load() : 0;
}

hsa_signal_value_t hsa_signal_load_relaxed(hsa_signal_t signal) {
  return hsa_signal_load_scacquire(signal);
}

void hsa_signal_store_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  if (const auto found = find_signal(signal)) found->store(value);
}

void hsa_signal_store_relaxed(hsa_signal_t signal, hsa_signal_value_t value) {
  hsa_signal_store_screlease(signal, value);
}

void hsa_signal_subtract_screlease(hsa_signal_t signal, hsa_signal_value_t value) {
  if (const auto found = find_signal(signal)) found->subtract(value);
}

// The clock has 1 GHz (HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY), so that a tick is a nanosecond.
hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                             hsa_signal_value_t compare_value,
                                             uint64_t timeout_hint,
                                             hsa_wait_state_t /*wait_state_hint*/) {
  constexpr std::uint64_t kLongest = 3'600'000'000'000;  // an hour, which steady_clock can add
  const auto found = find_signal(signal);
  if (!found) return 0;
  return found->wait(condition, compare_value,
                     std::chrono::nanoseconds(std::min(timeout_hint, kLongest)));
}

hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare_value, uint64_t timeout_hint,
                                           hsa_wait_state_t wait_state_hint) {
  return hsa_signal_wait_scacquire(signal, condition, compare_value, timeout_hint, wait_state_hint);
}

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

// As in ROCr, whoever unlocks what is not locked learns nothing of it.
hsa_status_t hsa_amd_memory_unlock(void* host_ptr) {
  return entry_point("hsa_amd_memory_unlock", [&](Session& session) {
    if (host_ptr != nullptr) session.allocations().unlock(address_of(host_ptr));
    return HSA_STATUS_SUCCESS;
  });
}

// Addresses are looked up when the copy is done: then a GPU finds something there, or does not.
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
    const bool filled = session.allocations().with_views(
        address_of(ptr), address_of(ptr), bytes,
        [&](const EngineView& to, const EngineView&) { move_bytes(to, from, bytes); });
    return filled ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
  });
}
