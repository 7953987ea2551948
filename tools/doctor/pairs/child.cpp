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

/// Closes the parent's sockets. Otherwise a child that hangs in a driver would keep a port taken
/// and a peer waiting after its parent has ended. Other descriptors stay, because emulated hardware
/// uses some.
void close_sockets_but(int own) noexcept {
  // The kernel assigns the lowest free numbers, and a doctor has some hundred.
  constexpr int kMost = 1024;
  for (int fd = STDERR_FILENO + 1; fd < kMost; ++fd) {
    struct stat what {};

    if (fd != own && ::fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode)) ::close(fd);
  }
}

/// Runs the child until it exits.
[[noreturn]] void live(const Child::Body& body, Fd fd, pid_t parent,
                       const HeldSignals& held) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(0);  // the parent has already ended
  close_sockets_but(fd.get());
  // Vendors' libraries print to standard output, which belongs to the report.
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDOUT_FILENO);
  // The child reports failures as data. The log is on only if the user asks for it.
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
  } catch (...) {  // out of memory: the parent sees that the child ended
  }
  // Must not flush the parent's buffers, nor call functions that libraries registered with
  // atexit(3).
  std::_Exit(code);
}

/// Waits until the process has ended, and returns false if it has not by the deadline.
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
  // Signals are held, because the child shares the descriptor of the parent's Interrupt until it
  // makes its own. A signal to the child would be taken for one to the parent.
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
  // Gives drivers time: a card that is closed in order is free at once, another one is reset first.
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
  // A child that has closed its end is about to exit by itself.
  const auto by_itself = lines_.ended() ? kByForce : std::chrono::milliseconds(0);
  if (!asked && reap(pid_, Deadline::after(by_itself), status)) {
    pid_ = -1;
    return how_it_ended(status);
  }
  ask_to_end();
  const pid_t pid = std::exchange(pid_, -1);
  if (reap(pid, *patience_, status)) return {};
  ::kill(pid, SIGKILL);
  // A process that hangs in the kernel ends only when the driver releases it, and is not waited
  // for.
  reap(pid, Deadline::after(kByForce), status);
  return {};
}

}  // namespace hbmwire::tools::doctor
