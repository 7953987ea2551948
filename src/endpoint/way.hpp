// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

#include "mover/mover.hpp"
#include "transport/lane.hpp"

namespace hbmwire::detail {

/// The carrier of a put or get. `mover`: null means one request of the lane. `by_nic`: the lane
/// carries at least a part of the bytes, or may have to.
struct Way {
  Mover* mover = nullptr;
  bool by_nic = true;
};

/// Finds the carrier if SliceChecks::is_plain() says no: asks the movers, and checks the memory if
/// the NIC carries the bytes. Sets the operation's local key. Errors: Stage::post.
Result<Way> find_way(EndpointState& endpoint, transport::Operation& operation, const Move& move);

/// Checks that a put to `to` may become visible: it reads back a byte that it wrote. Errors:
/// Errc::permission_denied, the key does not allow reading.
Result<void> check_visible(const RemoteRegionState& to, std::string_view peer);

/// Adds the READ of that byte to a put that becomes visible. Errors: as check_visible().
Result<void> flush_after(transport::Operation& put, const RemoteRegionState& to,
                         std::string_view peer);

}  // namespace hbmwire::detail
