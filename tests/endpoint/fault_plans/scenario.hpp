// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

/// The failures of one plan, all derived from a seed.
namespace hbmwire::test {

enum class Fault : std::uint8_t {
  none,
  kill_peer,
  stop_peer,
  link_down_up,
  link_down,
  revoke_key,
  revoke_region,
  wrong_key,
  drop_message,
  late_message,
  delayed_message,
  failing_call,
  failing_poll,
  overrun,
  cancel,
  close,
  drop_endpoint,
  drop_worker,
  bad_handshake,
  truncated_handshake,
};

inline constexpr std::array<std::string_view, 20> kFaultNames{
    "none",          "kill_peer",    "stop_peer",       "link_down_up",
    "link_down",     "revoke_key",   "revoke_region",   "wrong_key",
    "drop_message",  "late_message", "delayed_message", "failing_call",
    "failing_poll",  "overrun",      "cancel",          "close",
    "drop_endpoint", "drop_worker",  "bad_handshake",   "truncated_handshake"};

/// Whether the endpoints of this run have more than one NIC (docs/paths.md, Rails).
[[nodiscard]] bool has_rails();

/// Whether this run moves host memory by shared memory instead of the NIC.
[[nodiscard]] bool shares_memory();

struct Scenario {
  explicit Scenario(std::uint64_t seed);

  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  [[nodiscard]] std::string_view name() const {
    return kFaultNames.at(static_cast<std::size_t>(fault));
  }

  std::mt19937_64 random;
  Fault fault = Fault::none;
  std::string rules;         ///< faults of the emulated NIC, `hbmwire emulate --faults`
  std::string nic = "emu0";  ///< the NIC whose link goes down
  unsigned operations = 0;
  unsigned at = 0;  ///< number of the operation before which the fault strikes
  unsigned peer_timeout_ms = 0;
  unsigned late_ms = 0;  ///< longest delay of something in flight
  /// With shares_memory(): whether each end can map the other's memory.
  bool is_shared_here = false;
  bool is_shared_there = false;
};

}  // namespace hbmwire::test
