// SPDX-License-Identifier: MIT
#include "bench/nic/ucx.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "bench/common/peer.hpp"
#include "bench/common/timing.hpp"

namespace hbmwire::bench {
namespace {

/// A program on one CPU whose output goes to `output`.
pid_t start(int cpu, const std::vector<std::string>& command, int output) {
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  ::setenv("UCX_TLS", "posix", 1);
  ::setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
  pin(cpu);
  ::dup2(output, STDOUT_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

/// Whether somebody listens on a TCP port, which a connection would use up.
bool is_listening(unsigned port) {
  constexpr unsigned kListen = 0x0a;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number;
    std::string local;
    std::string remote;
    std::string state;
    fields >> number >> local >> remote >> state;
    const std::size_t colon = local.find(':');
    if (colon == std::string::npos) continue;
    if (std::stoul(local.substr(colon + 1), nullptr, 16) == port &&
        std::stoul(state, nullptr, 16) == kListen)
      return true;
  }
  return false;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count = 0; (count = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

/// The last line of `-f` output is figures alone: iterations, median, average, ...
double median_of(const std::string& output) {
  std::istringstream lines(output);
  std::string line;
  double median_us = 0;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    double iterations = 0;
    double value = 0;
    if (fields >> iterations >> value) median_us = value;
  }
  return median_us * 1000;
}

}  // namespace

double ucx_perftest(const std::string& test, unsigned iterations) {
  constexpr double kPatienceNs = 20e9;
  static unsigned port = 20000 + static_cast<unsigned>(::getpid()) % 10000;
  do {
    ++port;
  } while (is_listening(port));
  const Cpus cpus = Cpus::allowed();
  const std::string at = std::to_string(port);
  const int silence = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  std::array<int, 2> pipe{};
  if (silence < 0 || ::pipe2(pipe.data(), O_CLOEXEC) != 0) fail("pipe");
  const pid_t server = start(cpus.second, {"ucx_perftest", "-p", at}, silence);
  const double deadline = now_ns() + kPatienceNs;
  while (!is_listening(port) && ::waitpid(server, nullptr, WNOHANG) == 0 && now_ns() < deadline)
    ::usleep(1000);
  const pid_t client = start(cpus.first,
                             {"ucx_perftest", "127.0.0.1", "-p", at, "-t", test, "-s", "8", "-n",
                              std::to_string(iterations), "-w", "2000", "-f"},
                             pipe[1]);
  ::close(pipe[1]);
  const std::string output = read_all(pipe[0]);
  ::close(pipe[0]);
  ::close(silence);
  ::waitpid(client, nullptr, 0);
  const double result = median_of(output);
  if (result <= 0) ::kill(server, SIGTERM);  // it waits for a client
  ::waitpid(server, nullptr, 0);
  if (result <= 0) throw std::runtime_error("ucx_perftest gave no figure (package ucx-utils)");
  return result;
}

}  // namespace hbmwire::bench
