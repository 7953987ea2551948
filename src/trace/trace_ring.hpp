// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/trace_record.hpp"

namespace hbmwire::detail {

/// Carries records from one worker to the thread that writes the trace. It is a ring with one
/// writer and one reader, which never wait for each other: if the ring is full, the record is
/// dropped and counted. It also stores what the trace must remember about each transfer of the
/// worker.
class TraceRing {
 public:
  // Some 6 MiB. If it has a core of its own, the reader looks every few milliseconds.
  static constexpr std::size_t kRecords = std::size_t{1} << 16U;

  /// For a worker with `transfers` transfers at a time. May throw std::bad_alloc.
  explicit TraceRing(std::size_t transfers, std::uint32_t worker)
      : slots_(transfers), records_(kRecords), worker_(worker) {}

  TraceRing(const TraceRing&) = delete;
  TraceRing& operator=(const TraceRing&) = delete;
  ~TraceRing() = default;

  /// Passes the ring to a new trace, and drops its old records.
  void begin_anew(std::int64_t now_ns) noexcept {
    begun_ns_.store(now_ns, std::memory_order_relaxed);
    drain([](const TraceRecord&) {});
    static_cast<void>(take_dropped());
  }

  /// The start of its trace: transfers that began before it are not recorded.
  [[nodiscard]] std::int64_t begun_ns() const noexcept {
    return begun_ns_.load(std::memory_order_relaxed);
  }

  /// The number of the worker in the trace.
  [[nodiscard]] std::uint32_t worker() const noexcept { return worker_; }

  // --- used by the worker's thread

  [[nodiscard]] TraceSlot& slot(std::size_t transfer) noexcept { return slots_[transfer]; }

  void push(const TraceRecord& record) noexcept {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head - known_tail_ == kRecords) {
      // Pairs with the release in drain(): the reader has copied the record that is overwritten
      // now.
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head - known_tail_ == kRecords) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    records_[head % kRecords] = record;
    head_.store(head + 1, std::memory_order_release);  // pairs with the acquire in drain()
  }

  // --- used by the reader, one thread at a time

  /// Calls `use(record)` for each record in the ring. Returns their number.
  template <class Use>
  std::size_t drain(const Use& use) {
    const std::size_t head = head_.load(std::memory_order_acquire);
    const std::size_t first = tail_.load(std::memory_order_relaxed);
    for (std::size_t at = first; at != head; ++at) use(records_[at % kRecords]);
    tail_.store(head, std::memory_order_release);
    return head - first;
  }

  /// The number of records dropped since the last call.
  [[nodiscard]] std::uint64_t take_dropped() noexcept {
    const std::uint64_t all = dropped_.load(std::memory_order_relaxed);
    return all - std::exchange(taken_dropped_, all);
  }

 private:
  static_assert((kRecords & (kRecords - 1)) == 0, "head_ and tail_ wrap at 2^64");

  std::vector<TraceSlot> slots_;
  std::vector<TraceRecord> records_;
  std::uint32_t worker_;
  std::atomic<std::int64_t> begun_ns_{0};
  // One cache line for the worker, and one for the reader.
  alignas(64) std::atomic<std::size_t> head_{0};
  std::size_t known_tail_ = 0;
  std::atomic<std::uint64_t> dropped_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
  std::uint64_t taken_dropped_ = 0;
};

}  // namespace hbmwire::detail
