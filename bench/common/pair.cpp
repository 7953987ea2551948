// SPDX-License-Identifier: MIT
#include "bench/common/pair.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "bench/common/peer.hpp"
#include "bench/common/timing.hpp"

namespace hbmwire::bench {
namespace {

/// A program on one CPU whose output goes to `output`.
pid_t start(int cpu, const Variables& variables, const std::vector<std::string>& command,
            int output) {
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
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

/// A program that was started; it is waited for once.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid) {}

  [[nodiscard]] bool has_ended() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }

  /// Waits for its end. Whether its exit status was 0.
  bool succeeds() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
    return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
  }

  void end() {
    if (!has_ended()) ::kill(pid_, SIGTERM);
    succeeds();
  }

 private:
  pid_t pid_;
  int status_ = 0;
  bool ended_ = false;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count = 0; (count = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

}  // namespace

unsigned free_port() {
  static unsigned port = 20000 + static_cast<unsigned>(::getpid()) % 10000;
  do {
    ++port;
  } while (is_listening(port));
  return port;
}

std::string run_pair(const ProgramPair& pair) {
  constexpr double kPatienceNs = 20e9;
  const Cpus cpus = Cpus::allowed();
  const int silence = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  std::array<int, 2> pipe{};
  if (silence < 0 || ::pipe2(pipe.data(), O_CLOEXEC) != 0) fail("pipe");
  Running server(start(cpus.second, pair.variables, pair.server, silence));
  const double deadline = now_ns() + kPatienceNs;
  while (!is_listening(pair.port) && !server.has_ended() && now_ns() < deadline) ::usleep(1000);
  Running client(start(cpus.first, pair.variables, pair.client, pipe[1]));
  ::close(pipe[1]);
  std::string output = read_all(pipe[0]);
  ::close(pipe[0]);
  ::close(silence);
  if (!client.succeeds()) {
    server.end();  // it waits for a client
    throw std::runtime_error(pair.client.front() + " failed");
  }
  if (!server.succeeds()) throw std::runtime_error(pair.server.front() + " failed as a server");
  return output;
}

}  // namespace hbmwire::bench
