// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hbmwire::test {

/// Throws unless `holds`. For processes of a test that report an exception and then end.
inline void demand(bool holds, std::string_view what) {
  if (!holds) throw std::runtime_error(std::string(what) + ", errno " + std::to_string(errno));
}

}  // namespace hbmwire::test
