// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "endpoint/transfer_state.hpp"
#include "mover/block_mover.hpp"
#include "mover/rail_mover.hpp"
#include "trace/trace_source.hpp"

namespace hbmwire::detail {

/// The transfers of a worker: a fixed number, made with the worker, and a list of the free ones.
class TransferPool {
 public:
  TransferPool() = default;
  TransferPool(const TransferPool&) = delete;
  TransferPool& operator=(const TransferPool&) = delete;
  ~TransferPool() = default;

  /// Makes the transfers. `guarded`: TransferState::guarded. `railed`: transfers may go by several
  /// NICs. May throw std::bad_alloc.
  void make(std::uint32_t count, WorkerState& worker, bool guarded, bool railed);

  /// A free transfer; null: all are in use.
  [[nodiscard]] TransferState* take() noexcept {
    TransferState* const transfer = free_;
    if (transfer != nullptr) [[likely]]
      free_ = transfer->next;
    return transfer;
  }

  /// One of a few extra transfers, for a part of `whole`. Null: all are in use.
  [[nodiscard]] TransferState* take_part(const TransferState& whole) noexcept;

  /// The error to report when take() gives null.
  [[nodiscard]] static Error none_left(std::string_view peer) noexcept {
    return make_error(Errc::exhausted, Stage::post, "all of the worker's transfers are in use",
                      peer, Hint::transfers_exhausted);
  }

  /// The transfer is over, and its handle has gone: the next operation may have it.
  void give_back(TransferState& transfer) noexcept {
    TransferState*& list = (transfer.at_end & AtEnd::kPart) != 0 ? free_parts_ : free_;
    transfer.status = TransferState::Status::free;
    static_cast<TransferMarks&>(transfer) = {};
    transfer.next = list;
    list = &transfer;
  }

  [[nodiscard]] std::size_t index_of(const TransferState& transfer) const noexcept {
    return static_cast<std::size_t>(&transfer - transfers_.data());
  }

  /// Why the transfer has failed.
  [[nodiscard]] const Error& error_of(const TransferState& transfer) const noexcept {
    return errors_[index_of(transfer)];
  }

  /// May be called before the transfer fails.
  void set_error(const TransferState& transfer, const Error& why) noexcept {
    errors_[index_of(transfer)] = why;
  }

  [[nodiscard]] RailUse& rail_use_of(const TransferState& transfer) noexcept {
    return rail_uses_[index_of(transfer)];
  }

  [[nodiscard]] const RailUse& rail_use_of(const TransferState& transfer) const noexcept {
    return rail_uses_[index_of(transfer)];
  }

  /// Makes room for block runs: block_run_of() may be called from here on. May throw
  /// std::bad_alloc.
  void make_block_runs() {
    if (block_runs_.empty()) block_runs_ = std::vector<BlockRun>(transfers_.size());
  }

  [[nodiscard]] BlockRun& block_run_of(const TransferState& transfer) noexcept {
    return block_runs_[index_of(transfer)];
  }

  /// Notes that the transfer waits, for room or for earlier transfers.
  void note_queued(const TransferState& transfer) noexcept {
    if ((transfer.at_end & AtEnd::kTime) != 0) [[unlikely]]
      times_of(transfer).posted.reset();
  }

  /// The process-wide trace.
  [[nodiscard]] TraceSource& trace() noexcept { return trace_; }

  [[nodiscard]] TransferTimes& times_of(const TransferState& transfer) noexcept {
    return times_[index_of(transfer)];
  }

  [[nodiscard]] const TransferTimes& times_of(const TransferState& transfer) const noexcept {
    return times_[index_of(transfer)];
  }

  // All transfers, free or not.

  [[nodiscard]] std::size_t size() const noexcept { return transfers_.size(); }

  [[nodiscard]] auto begin() noexcept { return transfers_.begin(); }

  [[nodiscard]] auto end() noexcept { return transfers_.end(); }

  [[nodiscard]] auto begin() const noexcept { return transfers_.begin(); }

  [[nodiscard]] auto end() const noexcept { return transfers_.end(); }

  [[nodiscard]] TransferState& operator[](std::size_t index) noexcept { return transfers_[index]; }

  /// How many transfers take_part() has.
  static constexpr std::uint32_t kParts = 64;

 private:
  TransferState* free_ = nullptr;
  TransferState* free_parts_ = nullptr;
  std::vector<TransferState> transfers_;
  std::vector<Error> errors_;         // of failed transfers, each at its transfer's index
  std::vector<RailUse> rail_uses_;    // at the same indices; empty: there is one NIC
  std::vector<TransferTimes> times_;  // at the same indices
  std::vector<BlockRun> block_runs_;  // at the same indices; empty: no blocks were moved yet
  TraceSource trace_;
};

}  // namespace hbmwire::detail
