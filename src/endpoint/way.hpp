// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "hbmwire/error.hpp"

#include "mover/mover.hpp"
#include "transport/lane.hpp"

namespace hbmwire::detail {

/// The carrier of a put or get. `mover`: null is one request of the lane's. `by_nic`: the lane
/// carries at least a part of the way.
struct Way {
  Mover* mover = nullptr;
  bool by_nic = true;
};

/// Asks the movers, and checks what the NIC carries, where SliceChecks::is_plain() says no. Sets
/// the operation's local key. Errors: Stage::post.
Result<Way> find_way(EndpointState& endpoint, transport::Operation& operation, const Move& move);

/// A put that becomes visible reads what it wrote. Errors: Errc::permission_denied, the key does
/// not allow that.
Result<void> check_visible(const RemoteRegionState& to, std::string_view peer);

/// For a put that becomes visible: the READ of what it wrote. Errors: as check_visible().
Result<void> flush_after(transport::Operation& put, const RemoteRegionState& to,
                         std::string_view peer);

}  // namespace hbmwire::detail
