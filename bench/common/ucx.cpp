// SPDX-License-Identifier: MIT
#include "bench/common/ucx.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
pid_t start(int cpu, const std::string& transport, const std::vector<std::string>& command,
            int output) {
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  ::setenv("UCX_TLS", transport.c_str(), 1);
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

/// The last line of `-f` output is figures alone: iterations; median, average of the last part and
/// of all, in microseconds; ...
UcxFigures figures_of(const std::string& output) {
  std::istringstream lines(output);
  std::string line;
  UcxFigures figures;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    double iterations = 0;
    double median_us = 0;
    double last_us = 0;
    double average_us = 0;
    if (fields >> iterations >> median_us >> last_us >> average_us)
      figures = {median_us * 1000, average_us * 1000};
  }
  return figures;
}

}  // namespace

UcxFigures ucx_perftest(const UcxTest& test) {
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
  const pid_t server = start(cpus.second, test.transport, {"ucx_perftest", "-p", at}, silence);
  const double deadline = now_ns() + kPatienceNs;
  while (!is_listening(port) && ::waitpid(server, nullptr, WNOHANG) == 0 && now_ns() < deadline)
    ::usleep(1000);
  const std::vector<std::string> command{"ucx_perftest",
                                         "127.0.0.1",
                                         "-p",
                                         at,
                                         "-t",
                                         test.name,
                                         "-s",
                                         std::to_string(test.bytes),
                                         "-n",
                                         std::to_string(test.iterations),
                                         "-w",
                                         std::to_string(std::min(2000U, test.iterations)),
                                         "-O",
                                         std::to_string(test.outstanding),
                                         "-f"};
  const pid_t client = start(cpus.first, test.transport, command, pipe[1]);
  ::close(pipe[1]);
  const std::string output = read_all(pipe[0]);
  ::close(pipe[0]);
  ::close(silence);
  ::waitpid(client, nullptr, 0);
  const UcxFigures result = figures_of(output);
  const bool failed = result.median_ns <= 0;
  if (failed) ::kill(server, SIGTERM);  // it waits for a client
  ::waitpid(server, nullptr, 0);
  if (failed) throw std::runtime_error("ucx_perftest gave no figure (package ucx-utils)");
  return result;
}

}  // namespace hbmwire::bench
