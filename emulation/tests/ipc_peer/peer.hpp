// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

namespace hbmwire::test {

/// Another process that runs a PeerProgram (program.hpp) and gets one instruction per line. It ends
/// when this object closes its input.
class Peer {
 public:
  /// Starts the command, whose first word is a path, and waits until the program is ready.
  explicit Peer(const std::vector<std::string>& command);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Sends a line and returns the answer; "" if the process has ended.
  std::string tell(const std::string& line);

  /// Ends the process by SIGKILL, and waits for that.
  void kill();

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

std::string to_hex(std::span<const std::byte> bytes);
/// Reads bytes from hexadecimal digits; zeros if the text is too short.
void from_hex(const std::string& text, std::span<std::byte> bytes);

}  // namespace hbmwire::test
