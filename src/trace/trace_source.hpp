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

/// A flag that another thread may set, of whose setting the one that looks need not learn at once.
/// All stores, and those of TraceSource's ring, are in one order, so that a worker that takes its
/// flag back and then finds no ring has not taken back what a trace has set.
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

/// A worker's side of the process' trace, which may begin and end at any time, in another thread.
class TraceSource {
 public:
  TraceSource() = default;
  TraceSource(const TraceSource&) = delete;
  TraceSource& operator=(const TraceSource&) = delete;

  ~TraceSource() { leave(); }

  /// For a worker of so many transfers; `attends` becomes true when a trace begins. May throw
  /// std::bad_alloc.
  void join(std::size_t transfers, SharedFlag& attends);

  /// From here on nothing of the worker is touched.
  void leave() noexcept;

  /// Where the worker writes; null: no trace is on. It stays usable until this goes.
  [[nodiscard]] TraceRing* ring() const noexcept {
    return ring_.load();  // pairs with the stores of Tracer, in one order with SharedFlag's
  }

  /// The worker has an endpoint of this number (EndpointState::number). May throw std::bad_alloc.
  void add_peer(std::uint32_t connection, const std::string& nic, const std::string& peer);

  void remove_peer(std::uint32_t connection) noexcept;

 private:
  friend class Tracer;

  Tracer* tracer_ = nullptr;  // null: it has not joined
  SharedFlag* attends_ = nullptr;
  std::size_t transfers_ = 0;
  std::uint32_t number_ = 0;  // of the worker
  std::shared_ptr<TraceRing> owned_;
  std::atomic<TraceRing*> ring_{nullptr};
};

}  // namespace hbmwire::detail
