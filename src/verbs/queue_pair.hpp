// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "verbs/nic_state.hpp"

namespace hbmwire::verbs {

/// How the two ends of an RC connection are wired (ibv_modify_qp(3)).
struct Wiring {
  ConnectionAddress local;
  ConnectionAddress remote;
  std::optional<ibv_ah_attr> path = {};  ///< as others found it; none: by the remote GID and LID
  std::uint8_t reads_out = 1;            ///< READs and atomics asked for at a time, and
  std::uint8_t reads_in = 1;             ///< answered
  /// 4.096 us * 2^ack_timeout without an acknowledgement, `retries` + 1 times, are the peer's end.
  /// 14: 67 ms, so that seven retries notice it in half a second (IBTA 9.7.6.1.3).
  std::uint8_t ack_timeout = 14;
  std::uint8_t retries = 7;
  /// Of what found no receive, 0.64 ms apart; 7: without end. Where receives are posted before the
  /// peer may send, more patience would only hide a mistake.
  std::uint8_t receiver_retries = 6;
};

/// Errors: Errc::invalid_argument, Stage::connect: an Ethernet port does not reach an InfiniBand
/// one.
Result<void> check_link(const detail::NicState& nic, const ConnectionAddress& local,
                        const ConnectionAddress& remote);

/// RESET -> INIT: the queue pair takes receives from here on.
Result<void> to_init(const detail::NicState& nic, ibv_qp* qp, Access access);

/// INIT -> RTR -> RTS.
Result<void> to_ready(const detail::NicState& nic, ibv_qp* qp, const Wiring& wiring);

/// To RESET, from any state: what was posted is gone, and so are completions that nobody has
/// polled.
Result<void> to_reset(const detail::NicState& nic, ibv_qp* qp);

/// To ERROR, from any state: nothing moves by it any more, and what was posted is flushed.
Result<void> to_error(const detail::NicState& nic, ibv_qp* qp);

/// What a peer must know of `qp`, whose packets are to begin at a random number: stale ones of an
/// earlier connection must not fit the new one.
[[nodiscard]] ConnectionAddress local_address(const detail::NicState& nic, const ibv_qp* qp);

/// The error of a failed work completion, with what usually causes that status.
[[nodiscard]] Error completion_error(const ibv_wc& completion, std::string_view subject) noexcept;

}  // namespace hbmwire::verbs
