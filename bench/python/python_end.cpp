// SPDX-License-Identifier: MIT
#include "bench/python/python_end.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/endpoint/our_end.hpp"

namespace hbmwire::bench {
namespace {

/// In the layout that puts.py unpacks.
struct Command {
  std::array<char, 16> work{};
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  std::uint64_t count = 0;
};

/// Lets child processes inherit the descriptor, under the same number.
void let_inherit(int fd) {
  if (::fcntl(fd, F_SETFD, 0) != 0) fail("fcntl");
}

pid_t spawn(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (::setenv("PYTHONPATH", HBMWIRE_PYTHON_PATH, 1) != 0) fail("setenv");
  pid_t pid = -1;
  errno = ::posix_spawn(&pid, words.front().c_str(), nullptr, nullptr, pointers.data(), environ);
  if (errno != 0) fail(words.front());
  return pid;
}

}  // namespace

PythonEnd::PythonEnd(const Place& place) {
  if (place.listens) {
    peer_.emplace(place);
  } else {
    start(place);
  }
}

void PythonEnd::start(const Place& place) {
  const auto port = place.line.receive<std::uint16_t>();
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair");
  line_ = std::make_unique<Line>(ends[0]);
  const int memory = place.bytes.shared() != nullptr ? place.bytes.shared()->fd() : -1;
  if (memory >= 0) let_inherit(memory);
  let_inherit(ends[1]);
  pid_ = spawn({HBMWIRE_PYTHON, HBMWIRE_PYTHON_PUTS, std::to_string(memory),
                std::to_string(ends[1]), std::to_string(place.bytes.size()), std::to_string(port),
                std::to_string(place.in()), std::to_string(place.out())});
  ::close(ends[1]);
  // Once puts.py has connected, the keys of both sides pass through this process.
  const auto ours = line_->receive<KeyBytes>();
  place.line.send(ours);
  line_->send(place.line.receive<KeyBytes>());
}

PythonEnd::~PythonEnd() {
  line_.reset();  // the Python process ends with it
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

double PythonEnd::chunk_ns(std::string_view work, std::size_t bytes, unsigned chunks,
                           unsigned count) {
  Command command{.bytes = bytes, .chunks = chunks, .count = count};
  work.copy(command.work.data(), command.work.size());
  line_->send(command);
  return line_->receive<double>();
}

}  // namespace hbmwire::bench
