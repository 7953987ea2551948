// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/options.hpp"

namespace hbmwire::tools {

struct ServerOptions {
  CommonOptions common;
  std::string bind;   ///< address to listen on; empty: all
  std::string save;   ///< directory for files that clients send; empty: none are taken
  bool keep = false;  ///< go on after the first complete client
};

}  // namespace hbmwire::tools
