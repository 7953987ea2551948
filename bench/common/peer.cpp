// SPDX-License-Identifier: MIT
#include "bench/common/peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

namespace hbmwire::bench {

namespace {

Cpus ask_for_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) fail("sched_getaffinity");
  Cpus cpus{-1, -1};
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    cpus.second = static_cast<int>(cpu);
    if (cpus.first < 0) cpus.first = cpus.second;
  }
  return cpus;
}

}  // namespace

Cpus Cpus::allowed() {
  static const Cpus at_start = ask_for_cpus();
  return at_start;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

void* shared_pages(std::size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) fail("mmap");
  return pages;
}

Line::~Line() {
  // close() alone would end nothing: other children have this descriptor, too.
  ::shutdown(fd_, SHUT_RDWR);
  ::close(fd_);
}

void Line::write_all(const void* data, std::size_t bytes) {
  if (::send(fd_, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
    fail("to the other process");
}

bool Line::is_readable() const {
  pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) > 0;
}

bool Line::read_all(void* data, std::size_t bytes) {
  return ::recv(fd_, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

Peer::Peer(int cpu, const std::function<void(Line&)>& body) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair");
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    int status = 0;
    try {
      pin(cpu);
      Line line(ends[1]);
      body(line);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "peer: %s\n", error.what());
      status = 1;
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  line_ = std::make_unique<Line>(ends[0]);
}

Peer::~Peer() {
  line_.reset();
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace hbmwire::bench
