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
  unsigned port = 0;  ///< the client starts when the server listens there
  Variables variables = {};
};

/// A TCP port that no program listens on.
unsigned free_port();

/// Runs both. Returns the client's output. Fails with an exception, also if either exit status is
/// not 0.
std::string run_pair(const ProgramPair& pair);

}  // namespace hbmwire::bench
