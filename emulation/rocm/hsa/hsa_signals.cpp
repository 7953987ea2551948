// SPDX-License-Identifier: MIT
//
// ROCr: signals. The interface has a function for each memory order of an operation. Here all use
// the strictest order.
#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <thread>

#include "emulation/rocm/hsa/session.hpp"

using namespace hbmwire::emulation::rocm;

namespace {

using Clock = std::chrono::steady_clock;

std::shared_ptr<Signal> find_signal(hsa_signal_t signal) {
  const auto session = Runtime::instance().session();
  return session ? session->signals().find(signal) : nullptr;
}

template <typename Change>
hsa_signal_value_t change_signal(hsa_signal_t signal, Change change) {
  const auto found = find_signal(signal);
  return found ? found->change(change) : 0;
}

// The clock has 1 GHz (HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY), so a tick is 1 ns.
std::chrono::nanoseconds longest_wait(std::uint64_t timeout_hint) {
  constexpr std::uint64_t kLongest = 3'600'000'000'000;  // an hour, which steady_clock can add
  return std::chrono::nanoseconds(std::min(timeout_hint, kLongest));
}

hsa_status_t create_signal(const char* call, hsa_signal_value_t initial_value,
                           std::uint32_t num_consumers, const hsa_agent_t* consumers,
                           hsa_signal_t* signal) {
  return entry_point(call, [&](Session& session) {
    if (signal == nullptr || (num_consumers > 0 && consumers == nullptr))
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *signal = session.signals().add(std::make_shared<Signal>(initial_value));
    return HSA_STATUS_SUCCESS;
  });
}

/// The conditions of a wait for several signals. Condition i compares signal i with value i.
struct Wanted {
  std::span<const hsa_signal_t> signals;
  const hsa_signal_condition_t* conditions;
  const hsa_signal_value_t* values;

  /// The value of the signal if it fulfils its condition.
  [[nodiscard]] std::optional<hsa_signal_value_t> fulfilled(std::size_t i) const {
    const auto found = find_signal(signals[i]);
    if (!found) return std::nullopt;
    const hsa_signal_value_t value = found->load();
    return Signal::holds(value, conditions[i], values[i]) ? std::optional(value) : std::nullopt;
  }
};

/// Calls `done` repeatedly. Returns false if the time is over.
template <typename Done>
bool wait_until(std::uint64_t timeout_hint, Done done) {
  constexpr std::chrono::microseconds kPause(50);
  const auto end = Clock::now() + longest_wait(timeout_hint);
  while (!done()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

}  // namespace

hsa_status_t hsa_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
                               const hsa_agent_t* consumers, hsa_signal_t* signal) {
  return create_signal("hsa_signal_create", initial_value, num_consumers, consumers, signal);
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t initial_value, uint32_t num_consumers,
                                   const hsa_agent_t* consumers, uint64_t /*attributes*/,
                                   hsa_signal_t* signal) {
  return create_signal("hsa_amd_signal_create", initial_value, num_consumers, consumers, signal);
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal) {
  return entry_point("hsa_signal_destroy", [&](Session& session) {
    if (signal.handle == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    return session.signals().remove(signal) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_SIGNAL;
  });
}

#define HBMWIRE_LOAD(order)                                         \
  hsa_signal_value_t hsa_signal_load_##order(hsa_signal_t signal) { \
    const auto found = find_signal(signal);                         \
    return found ? found->load() : 0;                               \
  }
#define HBMWIRE_STORE(function)                                      \
  void function(hsa_signal_t signal, hsa_signal_value_t value) {     \
    if (const auto found = find_signal(signal)) found->store(value); \
  }
#define HBMWIRE_WAIT(order)                                                                    \
  hsa_signal_value_t hsa_signal_wait_##order(                                                  \
      hsa_signal_t signal, hsa_signal_condition_t condition, hsa_signal_value_t compare_value, \
      uint64_t timeout_hint, hsa_wait_state_t) {                                               \
    const auto found = find_signal(signal);                                                    \
    return found ? found->wait(condition, compare_value, longest_wait(timeout_hint)) : 0;      \
  }
#define HBMWIRE_CHANGE(operation, order, becomes)                                        \
  void hsa_signal_##operation##_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    change_signal(signal, [value](hsa_signal_value_t old) { return becomes; });          \
  }
#define HBMWIRE_EXCHANGE(order)                                                                   \
  hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal, hsa_signal_value_t value) { \
    return change_signal(signal, [value](hsa_signal_value_t) { return value; });                  \
  }
#define HBMWIRE_COMPARE_AND_SWAP(order)                                                       \
  hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal, hsa_signal_value_t expected, \
                                            hsa_signal_value_t value) {                       \
    return change_signal(signal, [expected, value](hsa_signal_value_t old) {                  \
      return old == expected ? value : old;                                                   \
    });                                                                                       \
  }
#define HBMWIRE_OPERATIONS(order)              \
  HBMWIRE_CHANGE(add, order, old + value)      \
  HBMWIRE_CHANGE(subtract, order, old - value) \
  HBMWIRE_CHANGE(and, order, old& value)       \
  HBMWIRE_CHANGE(or, order, old | value)       \
  HBMWIRE_CHANGE(xor, order, old ^ value)      \
  HBMWIRE_EXCHANGE(order)                      \
  HBMWIRE_COMPARE_AND_SWAP(order)

HBMWIRE_LOAD(relaxed)
HBMWIRE_LOAD(scacquire)
HBMWIRE_LOAD(acquire)
HBMWIRE_STORE(hsa_signal_store_relaxed)
HBMWIRE_STORE(hsa_signal_store_screlease)
HBMWIRE_STORE(hsa_signal_store_release)
HBMWIRE_STORE(hsa_signal_silent_store_relaxed)
HBMWIRE_STORE(hsa_signal_silent_store_screlease)
HBMWIRE_WAIT(relaxed)
HBMWIRE_WAIT(scacquire)
HBMWIRE_WAIT(acquire)
HBMWIRE_OPERATIONS(relaxed)
HBMWIRE_OPERATIONS(scacquire)
HBMWIRE_OPERATIONS(acquire)
HBMWIRE_OPERATIONS(screlease)
HBMWIRE_OPERATIONS(release)
HBMWIRE_OPERATIONS(scacq_screl)
HBMWIRE_OPERATIONS(acq_rel)

// Returns the index of a signal that fulfils its condition; UINT32_MAX if the time is over.
uint32_t hsa_amd_signal_wait_any(uint32_t signal_count, hsa_signal_t* signals,
                                 hsa_signal_condition_t* conds, hsa_signal_value_t* values,
                                 uint64_t timeout_hint, hsa_wait_state_t /*wait_hint*/,
                                 hsa_signal_value_t* satisfying_value) {
  const Wanted wanted{{signals, signal_count}, conds, values};
  std::uint32_t index = UINT32_MAX;
  wait_until(timeout_hint, [&] {
    for (std::uint32_t i = 0; i < signal_count && index == UINT32_MAX; ++i) {
      const auto value = wanted.fulfilled(i);
      if (!value) continue;
      index = i;
      if (satisfying_value != nullptr) *satisfying_value = *value;
    }
    return index != UINT32_MAX;
  });
  return index;
}

// Returns 0 if all fulfil their conditions at the same time; UINT32_MAX if the time is over.
uint32_t hsa_amd_signal_wait_all(uint32_t signal_count, hsa_signal_t* signals,
                                 hsa_signal_condition_t* conds, hsa_signal_value_t* values,
                                 uint64_t timeout_hint, hsa_wait_state_t /*wait_hint*/,
                                 hsa_signal_value_t* satisfying_values) {
  const Wanted wanted{{signals, signal_count}, conds, values};
  const bool all = wait_until(timeout_hint, [&] {
    for (std::uint32_t i = 0; i < signal_count; ++i) {
      const auto value = wanted.fulfilled(i);
      if (!value) return false;
      if (satisfying_values != nullptr) satisfying_values[i] = *value;
    }
    return true;
  });
  return all ? 0 : UINT32_MAX;
}
