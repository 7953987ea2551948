// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hbmwire::bench {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A server and a client of another program, one on each CPU.
struct ProgramPair {
  std::vector<std::string> server;
  std::vector<std::string> client;
  unsigned port = 0;  ///< the client starts when somebody listens there
  Variables variables = {};
};

/// A TCP port where nobody listens.
unsigned free_port();

/// The client's output. Fails with an exception, also when either one's exit status is not 0.
std::string run_pair(const ProgramPair& pair);

}  // namespace hbmwire::bench
