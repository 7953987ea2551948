// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "verbs/nic_state.hpp"

namespace hbmwire::verbs {

/// How the two ends of an RC connection are wired (ibv_modify_qp(3)).
struct Wiring {
  ConnectionAddress local;
  ConnectionAddress remote;
};

/// RESET -> INIT: the queue pair takes receives from here on.
Result<void> to_init(const detail::NicState& nic, ibv_qp* qp, Access access);

/// INIT -> RTR -> RTS.
Result<void> to_ready(const detail::NicState& nic, ibv_qp* qp, const Wiring& wiring);

/// 24 random bits (getrandom(2)): stale packets of an earlier connection must not fit the new one.
[[nodiscard]] std::uint32_t random_packet_sequence();

/// The error of a failed work completion, with what usually causes that status.
[[nodiscard]] Error completion_error(const ibv_wc& completion, std::string_view subject) noexcept;

}  // namespace hbmwire::verbs
