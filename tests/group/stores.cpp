// SPDX-License-Identifier: MIT
#include "stores.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hbmwire::test {

namespace {

using namespace std::chrono_literals;

constexpr const char* kEtcd = "/usr/bin/etcd";

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  return at;
}

/// A socket that listens on a port of the system's choice.
std::pair<Fd, std::uint16_t> listen_anywhere() {
  Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_in at = loopback(0);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  EXPECT_EQ(::listen(socket.get(), 16), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  return {std::move(socket), ntohs(at.sin_port)};
}

bool accepts(std::uint16_t port) {
  const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_in at = loopback(port);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}

/// Whether `fd` has one of `events` within `time`, and before `stop` is readable.
bool wait_for(int fd, short events, int stop, std::chrono::milliseconds time) {
  std::array<pollfd, 2> both{{{fd, events, 0}, {stop, POLLIN, 0}}};
  ::poll(both.data(), both.size(), static_cast<int>(time.count()));
  return both[1].revents == 0 && both[0].revents != 0;
}

}  // namespace

bool FakeStore::Visit::say(std::string_view bytes) const {
  while (!bytes.empty()) {
    if (!wait_for(socket_, POLLOUT, stop_, 60s)) return false;
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void FakeStore::Visit::wait(std::chrono::milliseconds time) const {
  static_cast<void>(wait_for(socket_, POLLRDHUP, stop_, time));
}

FakeStore::FakeStore(Answer answer, Reads reads)
    : answer_(std::move(answer)), reads_(reads), stop_(::eventfd(0, EFD_CLOEXEC)) {
  std::tie(listening_, port_) = listen_anywhere();
  thread_ = std::thread([this] { serve(); });
}

FakeStore::~FakeStore() {
  EXPECT_EQ(::eventfd_write(stop_.get(), 1), 0);
  thread_.join();
}

void FakeStore::serve() const {
  while (wait_for(listening_.get(), POLLIN, stop_.get(), 60s)) {
    const Fd socket{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) continue;
    std::string request;
    std::array<char, 4096> part{};
    // The body of each request ends with a brace.
    while (reads_ == Reads::request && !request.ends_with('}') &&
           wait_for(socket.get(), POLLIN, stop_.get(), 60s)) {
      const ssize_t got = ::recv(socket.get(), part.data(), part.size(), 0);
      if (got <= 0) break;
      request.append(part.data(), static_cast<std::size_t>(got));
    }
    Visit visit(socket.get(), stop_.get());
    answer_(visit);
  }
}

Etcd::Etcd() {
  if (::access(kEtcd, X_OK) != 0) return;
  std::string pattern = std::filesystem::temp_directory_path() / "hbmwire-etcd-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
  std::uint16_t peers = 0;
  // Both sockets are open at the same time, and therefore have different ports.
  {
    const auto one = listen_anywhere();
    const auto other = listen_anywhere();
    port_ = one.second;
    peers = other.second;
  }
  const std::string url = "http://127.0.0.1:" + std::to_string(port_);
  const std::string peer_url = "http://127.0.0.1:" + std::to_string(peers);
  std::vector<std::string> words{kEtcd,
                                 "--data-dir",
                                 folder_ / "data",
                                 "--listen-client-urls",
                                 url,
                                 "--advertise-client-urls",
                                 url,
                                 "--listen-peer-urls",
                                 peer_url,
                                 "--initial-advertise-peer-urls",
                                 peer_url,
                                 "--initial-cluster",
                                 "default=" + peer_url};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string log = folder_ / "log";
  child_ = ::fork();
  if (child_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(kEtcd, arguments.data());
  ::_exit(127);  // as a shell ends if it finds no program
}

Etcd::~Etcd() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

bool Etcd::is_ready() const {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (std::chrono::steady_clock::now() < until) {
    if (accepts(port_)) return true;
    std::this_thread::sleep_for(20ms);
  }
  return false;
}

void Etcd::stop() const {
  ::kill(child_, SIGSTOP);
  int status = 0;
  ::waitpid(child_, &status, WUNTRACED);
}

void Etcd::go_on() const { ::kill(child_, SIGCONT); }

}  // namespace hbmwire::test
