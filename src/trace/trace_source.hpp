// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trace/trace_ring.hpp"

namespace hbmwire::detail {

class Tracer;

/// A flag that another thread may set; the thread that reads it need not see that at once. All
/// stores to it, and those to TraceSource's ring, have one order for all threads. So if a worker
/// clears its flag and then finds no ring, it has not cleared a flag that a trace has set.
class SharedFlag {
 public:
  SharedFlag(bool value) noexcept : value_(value) {}  // NOLINT(google-explicit-constructor)

  SharedFlag& operator=(bool value) noexcept {
    value_.store(value);
    return *this;
  }

  operator bool() const noexcept {  // NOLINT(google-explicit-constructor)
    return value_.load(std::memory_order_relaxed);
  }

  SharedFlag(const SharedFlag&) = delete;
  SharedFlag& operator=(const SharedFlag&) = delete;
  ~SharedFlag() = default;

 private:
  std::atomic<bool> value_;
};

/// A worker's side of the process's trace, which another thread may begin or end at any time.
class TraceSource {
 public:
  TraceSource() = default;
  TraceSource(const TraceSource&) = delete;
  TraceSource& operator=(const TraceSource&) = delete;

  ~TraceSource() { leave(); }

  /// For a worker with `transfers` transfers at a time. `attends` becomes true when a trace begins.
  /// May throw std::bad_alloc.
  void join(std::size_t transfers, SharedFlag& attends);

  /// After this, the trace touches nothing of the worker.
  void leave() noexcept;

  /// The ring for the worker's records; null if no trace is on. It stays usable as long as this
  /// object.
  [[nodiscard]] TraceRing* ring() const noexcept {
    return ring_.load();  // pairs with the stores of Tracer, in one order with SharedFlag's
  }

  /// Names an endpoint of the worker (EndpointState::number). May throw std::bad_alloc.
  void add_peer(std::uint32_t connection, const std::string& nic, const std::string& peer);

  void remove_peer(std::uint32_t connection) noexcept;

 private:
  friend class Tracer;

  Tracer* tracer_ = nullptr;  // null: it has not joined
  SharedFlag* attends_ = nullptr;
  std::size_t transfers_ = 0;
  std::uint32_t number_ = 0;  // the worker's number in the trace
  std::shared_ptr<TraceRing> owned_;
  std::atomic<TraceRing*> ring_{nullptr};
};

}  // namespace hbmwire::detail
