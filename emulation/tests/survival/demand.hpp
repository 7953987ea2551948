// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hbmwire::test {

/// Ends a process of a test, which reports the exception, if one of its own calls fails.
inline void demand(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what) + ", errno " + std::to_string(errno));
}

}  // namespace hbmwire::test
