// SPDX-License-Identifier: MIT
#pragma once

#include <bit>

#include "base/probes.hpp"
#include "endpoint/endpoint_state.hpp"
#include "endpoint/transfer_counts.hpp"

// In line: counting a transfer that succeeds, and ending it.
namespace hbmwire::detail {

inline std::uint64_t TransferCounts::key_of(const TransferState& transfer) noexcept {
  const auto route = std::bit_cast<std::uint64_t>(static_cast<const Route&>(transfer));
  // Never 0, since 0 means a cell without a key.
  return route >> 32U | (std::uint64_t{1} + static_cast<std::uint8_t>(transfer.kind)) << 32U;
}

inline void TransferCounts::note_success(const TransferState& transfer) noexcept {
  if (transfer.endpoint == nullptr) [[unlikely]]
    return note_own_success(transfer);
  counters::tally(*transfer.endpoint->counts, key_of(transfer), transfer.bytes,
                  [&] { return labels_of(transfer); });
}

inline void WorkerState::succeed(TransferState& transfer) noexcept {
  if (transfer.at_end != 0) [[unlikely]]
    return end_attended(transfer, TransferState::Status::succeeded);
  counts.note_success(transfer);
  HBMWIRE_PROBE3(done, &transfer, transfer.kind, transfer.bytes);
  transfer.status = TransferState::Status::succeeded;
  transfer.endpoint = nullptr;
  if (!transfer.held) transfers.give_back(transfer);
}

}  // namespace hbmwire::detail
