// SPDX-License-Identifier: MIT
#pragma once

#include "endpoint/send_queue.hpp"

namespace hbmwire::detail {

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
