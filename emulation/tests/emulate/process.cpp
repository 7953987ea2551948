// SPDX-License-Identifier: MIT
#include "emulation/tests/emulate/process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <thread>
#include <utility>

namespace hbmwire::emulate_test {
namespace {

constexpr uid_t kNobody = 65534;

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::perror("pipe2");
  }

  std::array<int, 2> ends{-1, -1};
};

void become_nobody() {
  if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)
    ::_exit(124);
}

bool read_some(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const auto length = ::read(fd, buffer.data(), buffer.size());
  if (length > 0) text.append(buffer.data(), static_cast<std::size_t>(length));
  return length > 0;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const Setup& setup) {
  Pipe input;
  Pipe output;
  Pipe errors;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(input.ends[0], 0);
    ::dup2(output.ends[1], 1);
    ::dup2(errors.ends[1], 2);
    if (setup.as_nobody) become_nobody();
    if (setup.in_child) setup.in_child();
    std::vector<char*> argv;
    for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(123);  // no code of `hbmwire emulate`
  }
  ::close(input.ends[0]);
  ::close(output.ends[1]);
  ::close(errors.ends[1]);
  out_ = output.ends[0];
  err_ = errors.ends[0];
  // The input of tests is shorter than a pipe's capacity.
  if (::write(input.ends[1], setup.input.data(), setup.input.size()) < 0) std::perror("write");
  ::close(input.ends[1]);
}

Process::~Process() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

void Process::signal(int number) const { ::kill(pid_, number); }

bool Process::wait_for_output(const std::string& text) {
  while (outcome_.out.find(text) == std::string::npos) {
    if (!read_some(out_, outcome_.out)) return false;
  }
  return true;
}

Process::Outcome Process::finish() {
  std::array<pollfd, 2> streams{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    ::poll(streams.data(), streams.size(), -1);
    if (streams[0].revents != 0 && !read_some(out_, outcome_.out)) streams[0].fd = -1;
    if (streams[1].revents != 0 && !read_some(err_, outcome_.err)) streams[1].fd = -1;
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  outcome_.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome_;
}

Process::Outcome run(const std::vector<std::string>& command, const Process::Setup& setup) {
  return Process(command, setup).finish();
}

bool becomes_true(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace hbmwire::emulate_test
