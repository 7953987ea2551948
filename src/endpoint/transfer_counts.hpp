// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hbmwire/counters.hpp"

#include "base/forks.hpp"
#include "counters/tally.hpp"
#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

/// Counts the transfers of a worker as they end (docs/metrics.md). The counts are in memory of the
/// worker's own, so that others can read it at any time and never stop the worker. In line:
/// transfer_counts_datapath.hpp.
class TransferCounts {
 public:
  explicit TransferCounts(WorkerState& worker) noexcept : worker_(worker) {}

  TransferCounts(const TransferCounts&) = delete;
  TransferCounts& operator=(const TransferCounts&) = delete;
  ~TransferCounts();

  /// Call it once, before anything is counted. May throw std::bad_alloc.
  void make(std::uint32_t context);

  [[nodiscard]] std::uint32_t worker_number() const noexcept { return number_; }

  /// The counts of transfers without an endpoint.
  [[nodiscard]] counters::TrafficBlock& own() noexcept { return *own_; }

  /// The counts of a newly connected endpoint's transfers. May throw std::bad_alloc.
  [[nodiscard]] counters::TrafficBlock& begin_endpoint(const EndpointState& endpoint) const;
  void end_endpoint(counters::TrafficBlock& block) const noexcept;

  /// Counts a transfer that begins; the program has its handle. True: the next transfer is to be
  /// timed, as takes_sample() will say.
  [[nodiscard]] bool note_started(counters::TrafficBlock& block) noexcept {
    block.started.add(1);
    if (block.started.value() % kTimedOneIn != 0) [[likely]]
      return false;
    return samples_ = true;
  }

  /// Whether this transfer is to be timed. True once.
  [[nodiscard]] bool takes_sample() noexcept { return std::exchange(samples_, false); }

  /// Counts a transfer that has succeeded.
  inline void note_success(const TransferState& transfer) noexcept;

  /// Counts a transfer that has failed for this reason.
  void note_failure(const TransferState& transfer, Errc why) noexcept;

  /// Counts the time that a transfer took.
  void note_time(const TransferState& transfer, std::chrono::nanoseconds elapsed) noexcept;

  /// Counts a message that the program has read in place, and lets go without a receive.
  void note_looked_at(EndpointState& endpoint, const TransferLabels& labels,
                      std::uint64_t bytes) noexcept;

  /// One in this many transfers of an endpoint is timed.
  static constexpr std::uint64_t kTimedOneIn = 64;

 private:
  /// The key of a transfer's series. The low bits are the second half of Route.
  [[nodiscard]] static std::uint64_t key_of(const TransferState& transfer) noexcept;
  [[nodiscard]] TransferLabels labels_of(const TransferState& transfer) const noexcept;
  void note_own_success(const TransferState& transfer) noexcept;

  WorkerState& worker_;
  bool samples_ = true;
  std::uint32_t number_ = 0;
  counters::TrafficBlock* own_ = nullptr;
  std::array<counters::TimesBlock*, counters::kTimesBlocks> times_ = {};
};

}  // namespace hbmwire::detail
