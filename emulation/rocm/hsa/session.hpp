// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <vector>

#include "emulation/common/handle_table.hpp"
#include "emulation/rocm/abi/hsa.h"
#include "emulation/rocm/hsa/allocations.hpp"
#include "emulation/rocm/hsa/engine.hpp"

namespace hbmwire::emulation::rocm {

inline std::uint64_t address_of(const void* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

/// The state that exists from the first hsa_init() to the last hsa_shut_down().
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Allocations& allocations() { return allocations_; }

  HandleTable<hsa_signal_t, Signal>& signals() { return signals_; }

  CopyEngines& engines(unsigned gpu) { return *engines_[gpu]; }

 private:
  Allocations allocations_;
  HandleTable<hsa_signal_t, Signal> signals_;
  std::vector<std::unique_ptr<CopyEngines>> engines_;  // destroyed first: they use the above
};

/// Counts hsa_init(), and keeps the session alive.
class Runtime {
 public:
  static Runtime& instance();

  hsa_status_t acquire();
  hsa_status_t release();

  /// Null while the count is 0.
  std::shared_ptr<Session> session();

 private:
  std::mutex mutex_;
  unsigned count_ = 0;
  std::shared_ptr<Session> session_;
};

// Handles of agents and pools are numbers that do not look like pointers. The host's come first,
// then the GPUs'.
inline constexpr std::uint64_t kAgentBase = 0xa9e0'0000;
inline constexpr std::uint64_t kPoolBase = 0xb001'0000;
inline constexpr std::uint64_t kHandleStep = 16;

/// The kinds of pools that an agent has.
enum class PoolKind : std::uint8_t {
  fine,    ///< the host's, coherent
  coarse,  ///< the host's, or a GPU's own memory
  group,   ///< on the chip: no allocations
};

struct PoolId {
  unsigned owner = kHost;
  PoolKind kind = PoolKind::coarse;
};

hsa_agent_t agent_handle(unsigned owner);
std::optional<unsigned> agent_owner(hsa_agent_t agent);
hsa_amd_memory_pool_t pool_handle(const PoolId& pool);
std::optional<PoolId> pool_of(hsa_amd_memory_pool_t pool);

/// The error that the fault plan wants for this call.
hsa_status_t injected_status(const char* call);

/// Wraps every entry point: applies faults, requires hsa_init(), and lets no exception reach C
/// code.
template <typename Body>
hsa_status_t entry_point(const char* call, Body body) noexcept {
  try {
    if (const hsa_status_t status = injected_status(call); status != HSA_STATUS_SUCCESS)
      return status;
    const std::shared_ptr<Session> session = Runtime::instance().session();
    return session ? body(*session) : HSA_STATUS_ERROR_NOT_INITIALIZED;
  } catch (const std::bad_alloc&) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  } catch (const std::system_error&) {
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;  // a thread could not be started
  }
}

template <typename Value>
hsa_status_t answer(void* to, Value value) {
  *static_cast<Value*>(to) = value;
  return HSA_STATUS_SUCCESS;
}

}  // namespace hbmwire::emulation::rocm
