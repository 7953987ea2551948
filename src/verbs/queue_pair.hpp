// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/low_level/connection.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::verbs {

/// Errors: Errc::invalid_argument, Stage::connect (an Ethernet port cannot reach an InfiniBand
/// port).
Result<void> check_link(const detail::NicState& nic, const ConnectionAddress& local,
                        const ConnectionAddress& remote);

/// RESET to INIT: the queue pair takes receives from now on.
Result<void> to_init(const detail::NicState& nic, ibv_qp* qp, Access access,
                     std::uint16_t pkey_index);

/// INIT to RTR to RTS.
Result<void> to_ready(const detail::NicState& nic, ibv_qp* qp, const Wiring& wiring);

/// To RESET, from any state. Outstanding requests are gone, and so are their completions that were
/// not polled.
Result<void> to_reset(const detail::NicState& nic, ibv_qp* qp);

/// To ERROR, from any state. The queue pair moves nothing any more, and outstanding requests are
/// flushed.
Result<void> to_error(const detail::NicState& nic, ibv_qp* qp);

/// A port's address, without a queue pair.
[[nodiscard]] ConnectionAddress port_address(const detail::NicState& nic,
                                             const PortEntries& entries);

/// All that a peer must know about `qp`. Its packets begin at a random sequence number, so that
/// stale packets of an earlier connection do not fit the new one.
[[nodiscard]] ConnectionAddress local_address(const detail::NicState& nic, const ibv_qp* qp,
                                              const PortEntries& entries);

/// The error of a failed work completion, with the usual cause of that status.
[[nodiscard]] Error completion_error(int status, std::string_view subject) noexcept;

/// Converts a path that the connection manager has found.
[[nodiscard]] AddressPath to_address_path(const ibv_ah_attr& from) noexcept;

}  // namespace hbmwire::verbs
