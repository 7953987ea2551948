// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "tools/common/options.hpp"

namespace hbmwire::tools {

struct ServerOptions {
  CommonOptions common;
  std::string bind;   ///< address to listen on; empty means all
  std::string save;   ///< directory for files from clients; empty: files are refused
  bool keep = false;  ///< continue after the first complete client
};

}  // namespace hbmwire::tools
