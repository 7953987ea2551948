// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

namespace hbmwire::test {

/// A second process (program.hpp), told what to do a line at a time. It ends with its input.
class Peer {
 public:
  explicit Peer(const std::vector<std::string>& command);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// What it answers.
  std::string tell(const std::string& line);

  void kill();

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

std::string to_hex(std::span<const std::byte> bytes);
/// Zeros where the text is too short.
void from_hex(const std::string& text, std::span<std::byte> bytes);

}  // namespace hbmwire::test
