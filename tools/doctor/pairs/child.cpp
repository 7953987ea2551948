// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "hbmwire/log.hpp"

#include "tools/common/held_signals.hpp"
#include "tools/common/interrupt.hpp"

namespace hbmwire::tools::doctor {
namespace {

/// Closes the parent's sockets: a child that hangs in a driver would keep a port taken, and a peer
/// waiting, after its parent has ended. Other descriptors stay: emulated hardware has some.
void close_sockets_but(int own) noexcept {
  constexpr int kMost = 1024;  // a doctor has some hundred, and the kernel gives the lowest numbers
  for (int fd = STDERR_FILENO + 1; fd < kMost; ++fd) {
    struct stat what {};

    if (fd != own && ::fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode)) ::close(fd);
  }
}

/// The whole life of the child.
[[noreturn]] void live(const Child::Body& body, Fd fd, pid_t parent,
                       const HeldSignals& held) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(0);  // it has gone before that
  close_sockets_but(fd.get());
  // Vendors' libraries print, and standard output is the report's.
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDOUT_FILENO);
  // Its failures are told as data. A user who asks for the log gets it.
  if (std::getenv("HBMWIRE_LOG_LEVEL") == nullptr)  // NOLINT(concurrency-mt-unsafe): one thread
    set_log_level(LogLevel::off);
  int code = 1;
  try {
    Voice voice(std::move(fd));
    const auto interrupt = Interrupt::create();
    held.release();
    if (!interrupt) {
      voice.say(failure_json(interrupt.error()));
    } else {
      body(voice, interrupt->fd());
      voice.say({{"done", true}});
      code = 0;
    }
  } catch (...) {  // no memory: the parent sees that it ended
  }
  // Neither the parent's buffers nor what libraries registered with atexit(3).
  std::_Exit(code);
}

/// Whether it has ended by then.
bool reap(pid_t pid, const Deadline& deadline, int& status) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  while (true) {
    const pid_t got = ::waitpid(pid, &status, WNOHANG);
    if (got == pid || (got < 0 && errno != EINTR)) return true;
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(kPause);
  }
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return {};
  const int number = WTERMSIG(status);
  return fmt::format("killed by signal {} ({})", number,
                     ::strsignal(number));  // NOLINT(concurrency-mt-unsafe): one thread
}

}  // namespace

Json failure_json(const Failure& failure) {
  return {{"failure",
           {{"text", failure.text},
            {"exit_code", failure.exit_code},
            {"hint", to_string(failure.hint)}}}};
}

Failure interrupted_failure() {
  return Failure(make_error(Errc::cancelled, Stage::complete, "interrupt"));
}

void Voice::step(const std::string& by, const char* what) { say({{"by", by}, {"step", what}}); }

Outcome<Child> Child::start(const Body& body) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return tl::make_unexpected(Failure(system_error(Stage::probe, "socketpair", errno)));
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  const pid_t parent = ::getpid();
  // A child that gets a signal before it has an Interrupt of its own would write to its parent's,
  // whose descriptor it has: the parent would take the signal for its own.
  const HeldSignals held;
  const pid_t pid = ::fork();
  if (pid < 0) {
    return tl::make_unexpected(
        Failure(system_error(Stage::probe, "fork", errno, {}, Hint::process_limit)));
  }
  if (pid == 0) {
    ours = Fd();
    live(body, std::move(theirs), parent, held);
  }
  return Child(pid, std::move(ours));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      lines_(std::move(other.lines_)),
      patience_(other.patience_) {}

Child::~Child() { end(); }

void Child::ask_to_end() noexcept {
  // For drivers: a card that is closed in order is free at once, one that is not is reset first.
  constexpr auto kInOrder = std::chrono::milliseconds(1500);
  if (pid_ < 0 || patience_) return;
  ::kill(pid_, SIGTERM);
  patience_ = Deadline::after(kInOrder);
}

std::string Child::end() {
  constexpr auto kByForce = std::chrono::milliseconds(1000);
  if (pid_ < 0) return {};
  lines_.close();
  int status = 0;
  const bool asked = patience_.has_value();
  if (!asked && reap(pid_, Deadline::after(lines_.ended() ? kByForce : kByForce * 0), status)) {
    pid_ = -1;
    return how_it_ended(status);
  }
  ask_to_end();
  const pid_t pid = std::exchange(pid_, -1);
  if (reap(pid, *patience_, status)) return {};
  ::kill(pid, SIGKILL);
  // One that hangs in the kernel ends when the driver lets go of it. It can't be waited for.
  reap(pid, Deadline::after(kByForce), status);
  return {};
}

}  // namespace hbmwire::tools::doctor
