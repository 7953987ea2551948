// SPDX-License-Identifier: MIT
#include "ipc_owner.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "tests/support/bytes.hpp"

namespace hbmwire::test {

namespace {

/// The commands for the owner, and its answers.
struct Word {
  // 'n' names the memory, 's' tells whether the range contains the pattern of `seed`, 'f' frees the
  // memory.
  char command = 0;
  unsigned seed = 0;
  IpcHandle handle;
  bool same = false;
};

/// The work of the other process.
void own(MemoryType type, int socket) {
  const Context context = take(Context::create());
  const auto domain = take(context.open(type, shareable(type)));
  std::optional<Allocation> memory = take(domain->allocate(Owner::kBytes));
  auto expected = pattern(Owner::kBytes, 9);
  overlay(expected, Owner::kOffset, 0, 1, Owner::kLength);
  must(domain->copy_in(memory->address(), expected, soon()));
  Word word;
  while (::recv(socket, &word, sizeof word, 0) == sizeof word) {
    if (word.command == 'n')
      word.handle = take(domain->ipc_handle(memory->address() + Owner::kOffset, Owner::kLength));
    overlay(expected, Owner::kOffset, 0, word.seed, Owner::kLength);
    word.same = word.command == 's' && same_bytes(contents(*memory), expected);
    if (word.command == 'f') memory.reset();
    if (::send(socket, &word, sizeof word, MSG_NOSIGNAL) != sizeof word) return;
  }
}

Word tell(const Fd& socket, char command, unsigned seed) {
  Word word{.command = command, .seed = seed, .handle = {}};
  if (::send(socket.get(), &word, sizeof word, MSG_NOSIGNAL) != sizeof word ||
      ::recv(socket.get(), &word, sizeof word, 0) != sizeof word)
    throw std::runtime_error("the owner has gone");
  return word;
}

}  // namespace

MemoryOptions shareable(MemoryType type) {
  return {.device = {}, .host = {.shared = type == MemoryType::host}};
}

std::vector<std::byte> contents(const Allocation& memory) {
  std::vector<std::byte> bytes(memory.size_bytes());
  must(memory.domain().copy_out(memory.address(), bytes, soon()));
  return bytes;
}

std::size_t mapped_shared_files() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:hbmwire ") != std::string::npos) ++count;
  return count;
}

Owner::Owner(MemoryType type) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("socketpair");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[0]);
    try {
      own(type, ends[1]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the owner: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  socket_ = Fd(ends[0]);
}

IpcHandle Owner::handle() const { return tell(socket_, 'n', 1).handle; }

bool Owner::has(unsigned seed) const { return tell(socket_, 's', seed).same; }

void Owner::free() const { static_cast<void>(tell(socket_, 'f', 1)); }

void Owner::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace hbmwire::test
