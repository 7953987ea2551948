// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "hbmwire/low_level/connection.hpp"

#include "verbs/nic_state.hpp"
#include "verbs/wiring.hpp"

namespace hbmwire::verbs {

/// Errors: Errc::invalid_argument, Stage::connect: an Ethernet port does not reach an InfiniBand
/// one.
Result<void> check_link(const detail::NicState& nic, const ConnectionAddress& local,
                        const ConnectionAddress& remote);

/// RESET -> INIT: the queue pair takes receives from here on.
Result<void> to_init(const detail::NicState& nic, ibv_qp* qp, Access access,
                     std::uint16_t pkey_index);

/// INIT -> RTR -> RTS.
Result<void> to_ready(const detail::NicState& nic, ibv_qp* qp, const Wiring& wiring);

/// To RESET, from any state: what was posted is gone, and so are completions that nobody has
/// polled.
Result<void> to_reset(const detail::NicState& nic, ibv_qp* qp);

/// To ERROR, from any state: nothing moves by it any more, and what was posted is flushed.
Result<void> to_error(const detail::NicState& nic, ibv_qp* qp);

/// A port's address, without a queue pair.
[[nodiscard]] ConnectionAddress port_address(const detail::NicState& nic,
                                             const PortEntries& entries);

/// What a peer must know of `qp`, whose packets are to begin at a random number: stale ones of an
/// earlier connection must not fit the new one.
[[nodiscard]] ConnectionAddress local_address(const detail::NicState& nic, const ibv_qp* qp,
                                              const PortEntries& entries);

/// The error of a failed work completion, with what usually causes that status.
[[nodiscard]] Error completion_error(int status, std::string_view subject) noexcept;

/// From a connection manager's findings.
[[nodiscard]] AddressPath to_address_path(const ibv_ah_attr& from) noexcept;

}  // namespace hbmwire::verbs
