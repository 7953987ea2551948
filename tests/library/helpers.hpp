// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/nic.hpp"

/// Helpers of the library's tests.
namespace hbmwire::test {

/// Every access except atomics.
inline constexpr Access kAll = Access::local_write | Access::remote_write | Access::remote_read;

/// A peer may write and read.
inline constexpr Access kBoth = Access::remote_write | Access::remote_read;

/// This end and the peer may write.
inline constexpr Access kWrite = Access::local_write | Access::remote_write;

/// Longer than any test waits, unless the machine is busy.
[[nodiscard]] inline Wait soon() { return {Deadline::after(std::chrono::seconds(20)), -1}; }

/// The value of a Result. On an error the test ends here with its message.
template <class T>
T take(Result<T> result) {
  if (!result) throw std::runtime_error(describe(result.error()));
  return std::move(*result);
}

/// The same for a Result without a value.
inline void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(describe(result.error()));
}

[[nodiscard]] inline std::vector<std::byte> filled(std::size_t size, int value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

}  // namespace hbmwire::test
