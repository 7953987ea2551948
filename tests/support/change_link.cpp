// SPDX-License-Identifier: MIT
#include "tests/support/change_link.hpp"

#include <cstdlib>

namespace hbmwire::test {

bool change_link(const std::string& change) {
  // The path of a checkout may contain a space.
  return std::system(("'" HBMWIRE_EMULATE "' --link '" + change + "'").c_str()) == 0;
}

}  // namespace hbmwire::test
