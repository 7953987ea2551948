// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
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

#include "tools/common/interrupt.hpp"

namespace hbmwire::tools::doctor {
namespace {

// One value: 4096 pairs would be 4 MB, and a child tells of one pair at a time.
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

/// The whole life of the child.
[[noreturn]] void live(const Child::Body& body, int fd, pid_t parent) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::_Exit(0);  // it has gone before that
  // Vendors' libraries print, and standard output is the report's.
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::dup2(null, STDOUT_FILENO);
  // Its failures are told as data. A user who asks for the log gets it.
  if (std::getenv("HBMWIRE_LOG_LEVEL") == nullptr)  // NOLINT(concurrency-mt-unsafe): one thread
    set_log_level(LogLevel::off);
  int code = 1;
  try {
    Voice voice(fd);
    const auto interrupt = Interrupt::create();
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

/// Whether it has ended within that time.
bool reap(pid_t pid, std::chrono::milliseconds within, int& status) {
  constexpr auto kPause = std::chrono::milliseconds(2);
  const Deadline deadline = Deadline::after(within);
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

void Voice::say(const Json& value) {
  const std::string line = value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // the parent has gone, and this process goes with it
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

void Voice::step(const std::string& by, const char* what) { say({{"by", by}, {"step", what}}); }

Outcome<Child> Child::start(const Body& body) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return tl::make_unexpected(Failure(system_error(Stage::probe, "pipe2", errno)));
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return tl::make_unexpected(
        Failure(system_error(Stage::probe, "fork", errno, {}, Hint::process_limit)));
  }
  if (pid == 0) {
    ours = Fd();
    live(body, theirs.get(), parent);
  }
  return Child(pid, std::move(ours));
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      fd_(std::move(other.fd_)),
      text_(std::move(other.text_)) {}

Child::~Child() { end(); }

Child::Heard Child::listen(const Deadline& until, int cancel_fd) {
  std::array<char, 4096> more{};
  while (true) {
    const std::size_t length = text_.find('\n');
    if (length != std::string::npos) {
      Json value = Json::parse(text_.substr(0, length), nullptr, false);
      text_.erase(0, length + 1);
      return {.kind = Heard::Kind::value, .value = std::move(value)};
    }
    std::array<pollfd, 2> fds{{{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                               {.fd = cancel_fd, .events = POLLIN, .revents = 0}}};
    const int ready = ::poll(fds.data(), fds.size(), until.poll_timeout_ms());
    if (ready < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return {.kind = Heard::Kind::interrupted};
    if (ready == 0 && !until.passed()) continue;
    if (ready <= 0) return {.kind = Heard::Kind::silent};
    const ssize_t got = ::read(fd_.get(), more.data(), more.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || text_.size() > kLongestLine) {
      ended_ = true;
      return {.kind = Heard::Kind::ended};
    }
    text_.append(more.data(), static_cast<std::size_t>(got));
  }
}

std::string Child::end() {
  // For drivers: a card that is closed in order is free at once, one that is not is reset first.
  constexpr auto kInOrder = std::chrono::milliseconds(1500);
  constexpr auto kByForce = std::chrono::milliseconds(1000);
  if (pid_ < 0) return {};
  const pid_t pid = std::exchange(pid_, -1);
  fd_ = Fd();
  int status = 0;
  if (reap(pid, ended_ ? kByForce : std::chrono::milliseconds(0), status))
    return how_it_ended(status);
  ::kill(pid, SIGTERM);
  if (reap(pid, kInOrder, status)) return {};
  ::kill(pid, SIGKILL);
  // One that hangs in the kernel ends when the driver lets go of it. It can't be waited for.
  reap(pid, kByForce, status);
  return {};
}

}  // namespace hbmwire::tools::doctor
