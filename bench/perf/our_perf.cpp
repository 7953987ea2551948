// SPDX-License-Identifier: MIT
#include "bench/perf/our_perf.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "bench/common/peer.hpp"
#include <nlohmann/json.hpp>

namespace hbmwire::bench {
namespace {

/// The program of the same build: build/release/bin/hbmwire beside build/release/bench.
std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
          "bin/hbmwire")
      .string();
}

/// A process on one CPU, whose standard output can be read.
class Running {
 public:
  Running(int cpu, std::vector<std::string> command) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) become(cpu, command, pipe[1]);
    ::close(pipe[1]);
    output_ = pipe[0];
  }

  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  ~Running() {
    ::close(output_);
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);  // it waits for a peer that never came
      ::waitpid(pid_, nullptr, 0);
    }
  }

  std::string read_line() {
    std::string line;
    char c = 0;
    while (::read(output_, &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

  std::string read_all() {
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(output_, piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(count));
    return text;
  }

  /// Its exit code.
  int finish() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  [[noreturn]] static void become(int cpu, std::vector<std::string>& command, int output) {
    pin(cpu);
    ::dup2(output, STDOUT_FILENO);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }

  pid_t pid_ = -1;
  int output_ = -1;
};

PerfFigures figures_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("rows"))
    throw std::runtime_error("hbmwire perf gave no figure");
  const auto& row = json["rows"].at(0);
  if (!row["verification"]["passed"].get<bool>())
    throw std::runtime_error("hbmwire perf: what arrived was not verified");
  PerfFigures figures;
  if (row["latency"].is_object()) figures.typical_ns = row["latency"]["typical_ns"].get<double>();
  if (row["bandwidth"].is_object())
    figures.message_ns = 1e9 / row["bandwidth"]["messages_per_second"].get<double>();
  return figures;
}

}  // namespace

PerfFigures hbmwire_perf(const PerfTest& test) {
  const Cpus cpus = Cpus::allowed();
  Running server(cpus.second, {program(), "perf", test.name, "-p", "0", "--bind", "127.0.0.1"});
  const std::string waiting = server.read_line();  // "Waiting for client connection on port N..."
  const std::size_t digits = waiting.find_first_of("0123456789");
  if (digits == std::string::npos) throw std::runtime_error("hbmwire perf does not listen");
  std::vector<std::string> command{program(), "perf",
                                   test.name, "127.0.0.1",
                                   "-p",      std::to_string(std::stoul(waiting.substr(digits))),
                                   "-s",      std::to_string(test.bytes),
                                   "-n",      std::to_string(test.iterations),
                                   "--json"};
  command.insert(command.end(), test.options.begin(), test.options.end());
  Running client(cpus.first, std::move(command));
  const std::string output = client.read_all();
  if (client.finish() != 0) throw std::runtime_error("hbmwire perf failed");
  server.read_all();
  if (server.finish() != 0) throw std::runtime_error("hbmwire perf failed on its other side");
  return figures_of(output);
}

}  // namespace hbmwire::bench
