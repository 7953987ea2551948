// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>

#include "hbmwire/fd.hpp"

#include "tools/doctor/evidence/live_calls.hpp"

namespace hbmwire::tools::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kModinfoTime = std::chrono::seconds(2);
// Drivers of GPUs list some thousand devices, one in each line.
constexpr std::size_t kMostModinfoBytes = std::size_t{1} << 20U;

/// Finds modinfo of kmod. The PATH of a user often lacks its folder.
const char* find_modinfo() {
  for (const char* path :
       {"/usr/sbin/modinfo", "/sbin/modinfo", "/usr/bin/modinfo", "/bin/modinfo"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

bool is_module_name(std::string_view name) {
  constexpr std::size_t kMostBytes = 56;  // MODULE_NAME_LEN, include/linux/moduleparam.h
  return !name.empty() && name.size() < kMostBytes && !name.starts_with('-') &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

/// A running modinfo. The destructor ends the program and reaps it.
class Modinfo {
 public:
  Modinfo(pid_t pid, Fd output) : pid_(pid), output_(std::move(output)) {}

  Modinfo(const Modinfo&) = delete;
  Modinfo& operator=(const Modinfo&) = delete;

  ~Modinfo() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    static_cast<void>(wait());
  }

  /// Reads the output; leaves out the rest if it is too long. Returns false if the time is over.
  bool read(std::string& text) {
    const auto end = Clock::now() + kModinfoTime;
    std::array<char, 4096> piece{};
    while (text.size() < kMostModinfoBytes) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waits{.fd = output_.get(), .events = POLLIN, .revents = 0};
      const int ready = left > 0 ? ::poll(&waits, 1, static_cast<int>(left)) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      const ssize_t got = ::read(output_.get(), piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return true;
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
    return true;
  }

  /// The exit code; -1 if a signal ended it.
  int wait() {
    int status = 0;
    output_ = Fd();  // SIGPIPE ends a program that still writes
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
  Fd output_;
};

/// Starts modinfo by posix_spawn(3). Returns errno, or 0.
int start_modinfo(const char* program, const std::string& name, int output, pid_t& pid) {
  std::string module = name;
  std::string first = "modinfo";
  std::array<char*, 3> arguments = {first.data(), module.data(), nullptr};
  std::string language = "LC_ALL=C";
  std::array<char*, 2> environment = {language.data(), nullptr};
  posix_spawn_file_actions_t actions;
  if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0) return error;
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const int error =
      ::posix_spawn(&pid, program, &actions, nullptr, arguments.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// The value of a line such as "version:        1.2.3"; null if there is none.
Json field_of(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const std::size_t from = line.find_first_not_of(' ', name.size());
    return from == std::string_view::npos ? "" : std::string(line.substr(from));
  }
  return nullptr;
}

}  // namespace

Json module_info(const std::string& name) {
  if (!is_module_name(name)) return {{"error", EINVAL}};
  const char* const program = find_modinfo();
  if (program == nullptr) return {{"error", ENOSYS}};
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {{"error", errno}};
  Fd from_program(ends[0]);
  Fd to_us(ends[1]);
  pid_t pid = -1;
  if (const int error = start_modinfo(program, name, to_us.get(), pid); error != 0)
    return {{"error", error}};
  to_us = Fd();  // while this process holds it, the output has no end
  Modinfo modinfo(pid, std::move(from_program));
  std::string text;
  if (!modinfo.read(text)) return {{"error", ETIMEDOUT}};
  const bool is_cut = text.size() >= kMostModinfoBytes;
  if (modinfo.wait() != 0 && !is_cut) return {{"error", ENOENT}};
  return {
      {"value",
       {{"version", field_of(text, "version:")}, {"srcversion", field_of(text, "srcversion:")}}}};
}

}  // namespace hbmwire::tools::doctor
