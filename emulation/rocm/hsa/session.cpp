// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/session.hpp"

#include <cerrno>
#include <utility>

#include "emulation/rocm/testing_hooks.hpp"

namespace hbmwire::emulation::rocm {
namespace {

constexpr std::uint64_t kPoolsOfAgent = 4;  // numbers for an agent's pools, at least one a kind

/// The host is 0; the GPUs follow.
std::uint64_t number_of(unsigned owner) { return owner == kHost ? 0 : owner + 1ULL; }

std::optional<unsigned> owner_of(std::uint64_t number) {
  if (number == 0) return kHost;
  if (number > devices().size()) return std::nullopt;
  return static_cast<unsigned>(number - 1);
}

}  // namespace

Session::Session() {
  for (std::size_t i = 0; i < devices().size(); ++i)
    engines_.push_back(std::make_unique<CopyEngines>(allocations_));
}

Session::~Session() {
  for (const auto& engines : engines_) engines->stop();
}

Runtime& Runtime::instance() {
  static auto* runtime = new Runtime;  // never destroyed: threads may still run at exit
  return *runtime;
}

// Without a GPU there is no /dev/kfd, and ROCr returns "out of resources".
hsa_status_t Runtime::acquire() {
  const std::lock_guard lock(mutex_);
  if (count_ == 0) {
    if (devices().empty()) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    session_ = std::make_shared<Session>();
  }
  ++count_;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t Runtime::release() {
  // Destroyed after the lock is released, because it waits for copies.
  std::shared_ptr<Session> last;
  const std::lock_guard lock(mutex_);
  if (count_ == 0) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (--count_ == 0) last = std::move(session_);
  return HSA_STATUS_SUCCESS;
}

std::shared_ptr<Session> Runtime::session() {
  const std::lock_guard lock(mutex_);
  return session_;
}

hsa_agent_t agent_handle(unsigned owner) { return {kAgentBase + number_of(owner) * kHandleStep}; }

std::optional<unsigned> agent_owner(hsa_agent_t agent) {
  if (agent.handle < kAgentBase || (agent.handle - kAgentBase) % kHandleStep != 0)
    return std::nullopt;
  return owner_of((agent.handle - kAgentBase) / kHandleStep);
}

hsa_amd_memory_pool_t pool_handle(const PoolId& pool) {
  const auto kind = static_cast<std::uint64_t>(pool.kind);
  return {kPoolBase + (number_of(pool.owner) * kPoolsOfAgent + kind) * kHandleStep};
}

std::optional<PoolId> pool_of(hsa_amd_memory_pool_t pool) {
  if (pool.handle < kPoolBase || (pool.handle - kPoolBase) % kHandleStep != 0) return std::nullopt;
  const std::uint64_t number = (pool.handle - kPoolBase) / kHandleStep;
  const auto owner = owner_of(number / kPoolsOfAgent);
  if (!owner) return std::nullopt;
  const auto kind = static_cast<PoolKind>(number % kPoolsOfAgent);
  const bool exists = *owner == kHost ? kind == PoolKind::fine || kind == PoolKind::coarse
                                      : kind == PoolKind::coarse || kind == PoolKind::group;
  if (!exists) return std::nullopt;
  return PoolId{.owner = *owner, .kind = kind};
}

hsa_status_t injected_status(const char* call) {
  switch (hbmwire_rocm_fault(call)) {
    case 0:
      return HSA_STATUS_SUCCESS;
    case EINVAL:
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    case ENOMEM:
    case EMFILE:
    case ENODEV:
      return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    case EBUSY:
      return HSA_STATUS_ERROR_RESOURCE_BUSY;
    case EOPNOTSUPP:
      return HSA_STATUS_ERROR_NOT_SUPPORTED;
    default:
      return HSA_STATUS_ERROR;
  }
}

}  // namespace hbmwire::emulation::rocm
