// SPDX-License-Identifier: MIT
#include "peer_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "tests/support/lent_memory.hpp"
#include "tests/support/mappings.hpp"

namespace hbmwire::test {

namespace {

using Inside = PeerProcess::Inside;

/// Memory that peers find by that name; the library or the application owns it.
struct Target {
  Target(const Context& context, const PeerProcess::Options& options)
      : memory(context, options.type, PeerProcess::kBytes), region(memory.region()) {
    memory.set(std::vector<std::byte>(PeerProcess::kBytes));
    if (!options.lent) return;
    lent.emplace(PeerProcess::kBytes);
    region = value(context.register_memory(lent->data(), lent->size_bytes(), kAll));
  }

  Memory memory;
  std::optional<LentMemory> lent;
  Region region;
};

/// Executes one command: s (stop), c (call Options::does), x (destroy endpoints), g (take the
/// target away), ? (nothing). Answers a call with its result, a stop not at all, and the others
/// with the number of changed bytes. A stop is followed at once by the commands that arrived
/// meanwhile.
void answer(int fd, Target& target, Inside& inside, const PeerProcess::Options& options) {
  pollfd asked{fd, POLLIN, 0};
  char byte = 0;
  if (::poll(&asked, 1, 0) <= 0) return;
  if (::read(fd, &byte, 1) != 1) ::_exit(0);
  if (byte == 's') {
    ::raise(SIGSTOP);
    return answer(fd, target, inside, options);
  }
  std::uint64_t result = 0;
  if (byte == 'c') {
    std::int64_t argument = 0;
    if (::read(fd, &argument, sizeof argument) != sizeof argument) ::_exit(1);
    result = options.does(inside, argument);
  } else {
    if (byte == 'x') inside.endpoints.clear();
    if (byte == 'g') target.lent->take_away(LentMemory::How::unmapped);
    // Its engine may be slow, so nothing is read after an x.
    const auto bytes = byte == 'x' ? std::vector<std::byte>() : inside.memory.contents();
    result = static_cast<std::uint64_t>(
        std::count_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; }));
  }
  if (::write(fd, &result, sizeof result) != sizeof result) ::_exit(1);
}

/// A child that holds the connections until the test destroys the process. It becomes another
/// program and keeps nothing else, because mappings of the emulated hardware would show that their
/// process lives.
void leave_sockets_to_child(int commands) {
  if (::fork() != 0) return;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const std::string what = std::filesystem::read_symlink(entry.path());
    if (what.starts_with("socket:")) ::fcntl(fd, F_SETFD, 0);
  }
  ::dup2(commands, STDIN_FILENO);
  ::execlp("cat", "cat", static_cast<char*>(nullptr));
  ::_exit(127);
}

[[noreturn]] void serve(int fd, const PeerProcess::Options& options) {
  // Warnings are expected, because tests make peers fail. This is the only thread.
  std::vector<std::string> log;
  set_log_sink([&](LogLevel, std::string_view line) { log.emplace_back(line); });
  ContextOptions of_context;
  of_context.paths = options.paths;
  if (!options.nic.empty()) of_context.nics = {options.nic};
  const Context context = value(Context::create(of_context));
  Worker worker = value(Worker::create(context));
  Listener listener =
      value(Listener::create(worker, {.address = "127.0.0.1",
                                      .port = options.port,
                                      .endpoint = {.peer_timeout = options.peer_timeout}}));
  Target target(context, options);
  good(listener.advertise("target", target.region, options.key));
  const std::uint16_t port = listener.port();
  if (::write(fd, &port, sizeof port) != sizeof port) ::_exit(1);
  std::optional<MemoryKey> key;
  if (options.packs) {
    key = value(MemoryKey::pack(target.region));
    const std::uint64_t size = key->bytes().size();
    if (::write(fd, &size, sizeof size) != sizeof size ||
        ::write(fd, key->bytes().data(), size) != static_cast<ssize_t>(size))
      ::_exit(1);
  }
  std::vector<Endpoint> endpoints;
  Inside inside{worker, listener, target.memory, endpoints, log};
  for (int looks = 0;; ++looks) {
    answer(fd, target, inside, options);
    // A busy peer makes no progress some time after it has accepted.
    if (options.busy && !endpoints.empty() && looks > 100) {
      ::usleep(1000);
      continue;
    }
    auto accepted = listener.accept(within(2ms));
    if (!accepted) continue;
    endpoints.push_back(std::move(*accepted));
    looks = 0;
    if (options.forks && endpoints.size() == 1) leave_sockets_to_child(fd);
  }
}

}  // namespace

PeerProcess::PeerProcess(const Options& options) {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  process_ = ::fork();
  if (process_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(pair[0]);
    serve(pair[1], options);
  }
  ::close(pair[1]);
  commands_ = Fd{pair[0]};
  EXPECT_EQ(::read(commands_.get(), &port_, sizeof port_), static_cast<ssize_t>(sizeof port_));
  if (!options.packs) return;
  std::uint64_t size = 0;
  EXPECT_EQ(::read(commands_.get(), &size, sizeof size), static_cast<ssize_t>(sizeof size));
  key_.resize(size);
  EXPECT_EQ(::recv(commands_.get(), key_.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
}

PeerProcess::~PeerProcess() { kill(); }

void PeerProcess::stop() const {
  EXPECT_EQ(::write(commands_.get(), "s", 1), 1);
  wait_until_stopped();
}

void PeerProcess::stop_anywhere() const {
  ::kill(process_, SIGSTOP);
  wait_until_stopped();
}

void PeerProcess::wait_until_stopped() const {
  int status = 0;
  ::waitpid(process_, &status, WUNTRACED);
}

void PeerProcess::go_on() const { ::kill(process_, SIGCONT); }

void PeerProcess::kill() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
}

std::uint64_t PeerProcess::changed_bytes() const { return tell('?'); }

std::size_t PeerProcess::mappings_of(std::uint64_t size_bytes) const {
  return test::mappings_of(size_bytes, std::to_string(process_));
}

std::uint64_t PeerProcess::call(std::int64_t argument) const {
  std::array<char, 1 + sizeof argument> command{'c'};
  std::memcpy(&command[1], &argument, sizeof argument);
  EXPECT_EQ(::write(commands_.get(), command.data(), command.size()),
            static_cast<ssize_t>(command.size()));
  return answer();
}

std::uint64_t PeerProcess::tell(char command) const {
  EXPECT_EQ(::write(commands_.get(), &command, 1), 1);
  go_on();
  return answer();
}

std::uint64_t PeerProcess::answer() const {
  std::uint64_t result = ~std::uint64_t{0};
  EXPECT_EQ(::read(commands_.get(), &result, sizeof result), static_cast<ssize_t>(sizeof result));
  return result;
}

}  // namespace hbmwire::test
