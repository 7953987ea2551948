// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/hbmwire.hpp"

#include "tests/support/bytes.hpp"

namespace hbmwire::test {

using namespace std::chrono_literals;

/// A wait of at most `time`, which no descriptor ends early.
inline Wait within(std::chrono::nanoseconds time) { return {Deadline::after(time), -1}; }

/// The value of a Result that must have one.
template <class T>
T value(Result<T> result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : describe(result.error()));
  return std::move(result).value();
}

/// Expects success.
inline void good(const Result<void>& result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : describe(result.error()));
}

inline constexpr Access kAll =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

/// The largest amount that tests of messages and lists move at once.
inline constexpr std::uint64_t kMessageBytes = 128 << 10;

/// Registered memory of any type, which the host can fill and read.
class Memory {
 public:
  Memory(const Context& context, MemoryType type, std::uint64_t size_bytes, Access access = kAll);

  [[nodiscard]] const Region& region() const noexcept { return region_; }

  [[nodiscard]] Slice slice(std::uint64_t offset, std::uint64_t length) const {
    return region_.slice(offset, length);
  }

  [[nodiscard]] Slice all() const { return region_.slice(0, region_.size_bytes()); }

  /// Writes the pattern of `seed`.
  void fill(unsigned seed);

  void set(const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> contents();

 private:
  Region region_;
  Buffer buffer_;
};

/// Two connected endpoints of one process, each with its own worker.
struct Ends {
  explicit Ends(EndpointOptions options = {}, WorkerOptions worker_options = {},
                ContextOptions context_options = {});

  /// Drives both ends until `over`; fails the test after `time`.
  template <class Over>
  void drive(const Over& over, std::chrono::nanoseconds time = 10s) {
    const Deadline deadline = Deadline::after(time);
    while (!over()) {
      a_worker.progress();
      b_worker.progress();
      if (!deadline.passed()) continue;
      ADD_FAILURE() << "not over in time";
      return;
    }
  }

  Context context;
  Worker a_worker;
  Worker b_worker;
  Listener listener;
  std::optional<Endpoint> a;  // the end that connected
  std::optional<Endpoint> b;  // the end that was accepted
};

/// Drives both ends until `transfer` has ended, and expects success.
void finish(Ends& ends, Transfer& transfer);

/// Connects two ends by invitations, one of `a_worker` and one of `b_worker`.
[[nodiscard]] std::pair<Endpoint, Endpoint> invite(const Worker& a_worker, const Worker& b_worker);

/// Calls `work` in another thread, and drives the worker meanwhile.
void beside(Worker& worker, const std::function<void()>& work);

/// A pre-shared key; each seed gives another one.
[[nodiscard]] std::vector<std::byte> key_of(unsigned seed);

}  // namespace hbmwire::test
