// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

// Notes of transfers for the process' trace (TransferPool::trace()). All but the first are for
// those that have AtEnd::kTrace, and nothing is noted of others.

/// It is asked for. False: no trace is on.
bool trace_asked(TransferState& transfer, std::chrono::steady_clock::time_point now) noexcept;

/// It is posted; a receive: its message has come.
void trace_posted(TransferState& transfer) noexcept;

/// It has joined its endpoint's queue, `behind` others.
void trace_queued(TransferState& transfer, bool behind) noexcept;

/// A receive waits for its message.
void trace_unmatched(TransferState& transfer) noexcept;

/// It is over: the trace is told.
void trace_over(const TransferState& transfer) noexcept;

}  // namespace hbmwire::detail
