// SPDX-License-Identifier: MIT
#include "emulation/tests/ipc_peer/peer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace hbmwire::test {

Peer::Peer(const std::vector<std::string>& command) {
  ::signal(SIGPIPE, SIG_IGN);  // a missing answer tells that the process has ended
  std::vector<char*> arguments;
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> down{};
  std::array<int, 2> up{};
  EXPECT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(down[0], STDIN_FILENO);
    ::dup2(up[1], STDOUT_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(1);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_ = down[1];
  from_ = up[0];
  EXPECT_EQ(tell("ready"), "0");  // the answer to an unknown word
}

Peer::~Peer() {
  ::close(to_);
  ::close(from_);
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

std::string Peer::tell(const std::string& line) {
  const std::string sent = line + "\n";
  EXPECT_EQ(::write(to_, sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  std::string answer;
  char byte = 0;
  while (::read(from_, &byte, 1) == 1 && byte != '\n') answer += byte;
  return answer;
}

void Peer::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    for (const unsigned shift : {4U, 0U})
      text += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> shift & 15U];
  }
  return text;
}

void from_hex(const std::string& text, std::span<std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::string digits = 2 * i < text.size() ? text.substr(2 * i, 2) : "0";
    bytes[i] = static_cast<std::byte>(std::strtoul(digits.c_str(), nullptr, 16));
  }
}

}  // namespace hbmwire::test
