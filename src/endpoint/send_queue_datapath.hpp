// SPDX-License-Identifier: MIT
#pragma once

#include "endpoint/endpoint_state.hpp"
#include "endpoint/send_queue.hpp"

namespace hbmwire::detail {

inline bool SendQueue::has_room(std::uint32_t requests) noexcept {
  if (room() >= requests) [[likely]]
    return true;
  if (is_held()) first_.endpoint->wiring.late().need();
  return false;
}

inline int SendQueue::post_here(const transport::Operation& operation,
                                TransferState* transfer) noexcept {
  if (operation.flushed) [[unlikely]]
    return post_flushed(operation, transfer);
  Posted& posted = next_place(transfer, 1);
  const int result =
      poster_.post(*lane_, operation, transport::to_id(&posted, transport::Tag::posted));
  if (result == 0) [[likely]]
    push(1, transfer);
  return result;
}

}  // namespace hbmwire::detail
