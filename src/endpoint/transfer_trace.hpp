// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

// Notes about transfers for the trace of the process (TransferPool::trace()). Except trace_asked(),
// they may be called only for transfers with AtEnd::kTrace; other transfers are not noted.

/// The transfer begins. False: no trace is on.
bool trace_asked(TransferState& transfer, std::chrono::steady_clock::time_point now) noexcept;

/// The transfer is posted; for a receive: its message has come.
void trace_posted(TransferState& transfer) noexcept;

/// The transfer has joined its endpoint's queue. `behind`: others are before it.
void trace_queued(TransferState& transfer, bool behind) noexcept;

/// A receive waits for its message.
void trace_unmatched(TransferState& transfer) noexcept;

/// The transfer is over: tells the trace.
void trace_over(const TransferState& transfer) noexcept;

}  // namespace hbmwire::detail
