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

inline Wait within(std::chrono::nanoseconds time) { return {Deadline::after(time), -1}; }

/// The value of a Result that must be one.
template <class T>
T value(Result<T> result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : describe(result.error()));
  return std::move(result).value();
}

inline void good(const Result<void>& result) {
  EXPECT_TRUE(result.has_value()) << (result ? "" : describe(result.error()));
}

inline constexpr Access kAll =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

/// The most that tests of messages and lists move at once.
inline constexpr std::uint64_t kMessageBytes = 128 << 10;

/// Registered memory whose contents the host can set and see, whosever it is.
class Memory {
 public:
  Memory(const Context& context, MemoryType type, std::uint64_t size_bytes, Access access = kAll);

  [[nodiscard]] const Region& region() const noexcept { return region_; }

  [[nodiscard]] Slice slice(std::uint64_t offset, std::uint64_t length) const {
    return region_.slice(offset, length);
  }

  [[nodiscard]] Slice all() const { return region_.slice(0, region_.size_bytes()); }

  void fill(unsigned seed);
  void set(const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> contents();

 private:
  Region region_;
  Buffer buffer_;
};

/// Two connected endpoints of one process, each with a worker of its own.
struct Ends {
  explicit Ends(EndpointOptions options = {}, WorkerOptions worker_options = {},
                ContextOptions context_options = {});

  /// Drives both ends until `over`, or a test failure after `time`.
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
  std::optional<Endpoint> a;  // connected
  std::optional<Endpoint> b;  // was accepted
};

/// Drives both ends until `transfer` is over, which has to succeed.
void finish(Ends& ends, Transfer& transfer);

/// Two ends that meet by invitations, of `a_worker` and of `b_worker`.
[[nodiscard]] std::pair<Endpoint, Endpoint> invite(const Worker& a_worker, const Worker& b_worker);

/// Calls `work` in a thread of its own, and drives the worker meanwhile.
void beside(Worker& worker, const std::function<void()>& work);

/// A pre-shared key, another one for each seed.
[[nodiscard]] std::vector<std::byte> key_of(unsigned seed);

}  // namespace hbmwire::test
