// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hbmwire::test {

/// Ends a process of a test, which reports the exception, where a call of its own fails.
inline void demand(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what) + ", errno " + std::to_string(errno));
}

}  // namespace hbmwire::test
