// SPDX-License-Identifier: MIT
//
// HIP's copies: it uses ROCr's asynchronous copies and locks the host's memory meanwhile.
#include <bit>
#include <cstring>
#include <vector>

#include "emulation/rocm/hip/runtime.hpp"

namespace hbmwire::emulation::rocm {
namespace {

/// An end of a copy, in the form that ROCr needs.
struct End {
  hsa_agent_t agent{};
  void* address = nullptr;
  void* locked = nullptr;  ///< to be unlocked afterwards
};

/// `info` describes the address. Returns an end without an address if the host's memory cannot be
/// locked.
End end_of(HipRuntime& runtime, const hsa_amd_pointer_info_t& info, void* address,
           std::size_t bytes) {
  if (is_allocated(info)) return {info.agentOwner, address, nullptr};
  End end{runtime.host(), nullptr, nullptr};
  if (hsa_amd_memory_lock(address, bytes, nullptr, 0, &end.address) == HSA_STATUS_SUCCESS)
    end.locked = address;
  return end;
}

void unlock(const End& end) {
  if (end.locked != nullptr && hsa_amd_memory_unlock(end.locked) != HSA_STATUS_SUCCESS)
    hsa_amd_memory_unlock(end.locked);  // twice, because a fault plan may make the first call fail
}

hipError_t copy_and_wait(const End& to, const End& from, std::size_t bytes) {
  hsa_signal_t done{};
  if (const hsa_status_t status = hsa_signal_create(1, 0, nullptr, &done);
      status != HSA_STATUS_SUCCESS)
    return error_of(status);
  const hsa_status_t status = hsa_amd_memory_async_copy(to.address, to.agent, from.address,
                                                        from.agent, bytes, 0, nullptr, done);
  hsa_signal_value_t value = 0;
  // The engine changes the signal from 1 to 0, or to -1 if the copy fails.
  if (status == HSA_STATUS_SUCCESS) {
    value = hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX,
                                      HSA_WAIT_STATE_BLOCKED);
  }
  // Twice, because a fault plan may make the first call fail.
  if (hsa_signal_destroy(done) != HSA_STATUS_SUCCESS) hsa_signal_destroy(done);
  if (status != HSA_STATUS_SUCCESS) return error_of(status);
  return value < 0 ? hipErrorUnknown : hipSuccess;
}

bool is_device(const HipRuntime& runtime, const hsa_amd_pointer_info_t& info) {
  return is_allocated(info) && runtime.device_of(info.agentOwner).has_value();
}

}  // namespace

hipError_t copy_now(HipRuntime& runtime, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return hipSuccess;
  const auto to_info = pointer_info(to);
  const auto from_info = pointer_info(from);
  if (!to_info || !from_info) return hipErrorUnknown;
  if (!is_device(runtime, *to_info) && !is_device(runtime, *from_info)) {
    std::memmove(to, from, bytes);
    return hipSuccess;
  }
  const End destination = end_of(runtime, *to_info, to, bytes);
  const End source = end_of(runtime, *from_info, const_cast<void*>(from), bytes);
  hipError_t error = hipErrorInvalidValue;
  if (destination.address != nullptr && source.address != nullptr)
    error = copy_and_wait(destination, source, bytes);
  unlock(destination);
  unlock(source);
  return error;
}

hipError_t fill_now(HipRuntime& runtime, void* to, int value, std::size_t bytes) {
  const std::vector<unsigned char> pattern(bytes, static_cast<unsigned char>(value));
  return copy_now(runtime, to, pattern.data(), bytes);
}

}  // namespace hbmwire::emulation::rocm
