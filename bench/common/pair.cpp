// SPDX-License-Identifier: MIT
#include "bench/common/pair.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "bench/common/peer.hpp"
#include "bench/common/timing.hpp"

namespace hbmwire::bench {
namespace {

/// The environment, with some variables set.
std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string_view name = line.substr(0, line.find('='));
    const auto is_it = [&](const auto& variable) { return variable.first == name; };
    if (std::ranges::none_of(variables, is_it)) all.emplace_back(line);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

/// Starts a program on one CPU; its output goes to `output`. Not by fork(2): after that this
/// process would have to copy its private pages again before it writes to them or sends from them.
pid_t start(int cpu, const Variables& variables, std::vector<std::string> command, int output) {
  std::vector<std::string> environment = environment_with(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const OnCpu on(cpu);  // the child inherits the CPU
  pid_t pid = -1;
  errno = ::posix_spawnp(&pid, command.front().c_str(), &actions, nullptr,
                         pointers_to(command).data(), pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) fail(command.front());
  return pid;
}

/// Whether a program listens on a TCP port. Looks at /proc: a connection would use up a program
/// that serves only one.
bool is_listening(unsigned port) {
  constexpr unsigned kListen = 0x0a;  // TCP_LISTEN in the table's column "st"
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  // The headline.
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

/// A started program; waits for it once.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid) {}

  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  ~Running() {
    if (!has_ended()) ::kill(pid_, SIGTERM);  // or it might wait for the other program for ever
    succeeds();                               // waits for its end
  }

  [[nodiscard]] bool has_ended() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }

  /// Waits for its end. Returns whether its exit status was 0.
  bool succeeds() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
    return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
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
  // Benchmarks that run at the same time have process numbers close to each other. Each has a
  // hundred ports, since a port may be taken between this check and its use.
  static unsigned port = 20000 + static_cast<unsigned>(::getpid()) % 100 * 100;
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
  // The client has the only writing end now, so read_all() ends with the client.
  ::close(pipe[1]);
  std::string output = read_all(pipe[0]);
  ::close(pipe[0]);
  ::close(silence);
  if (!client.succeeds()) throw std::runtime_error(pair.client.front() + " failed");
  if (!server.succeeds()) throw std::runtime_error(pair.server.front() + " failed as a server");
  return output;
}

}  // namespace hbmwire::bench
