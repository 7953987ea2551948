// SPDX-License-Identifier: MIT
#include "attach_exporter.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "hbmwire/attach.hpp"
#include "hbmwire/buffer.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/memory_domain.hpp"

#include "emulated_hooks.hpp"

namespace hbmwire::test {

namespace {

/// The first message of the other process.
struct Hello {
  std::array<char, 104> socket{};
  std::array<std::uint8_t, 16> secret{};
  std::uint64_t memory_address = 0;
};

void send_value(int socket, const void* value, std::size_t size) {
  if (::send(socket, value, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) ::_exit(3);
}

/// The published objects of the other process, which it keeps until it is told to free them.
struct Published {
  Allocation memory;
  Buffer buffer;
  std::optional<AttachPublication> publication;
};

std::int64_t contents_of(Buffer& buffer) {
  std::vector<std::byte> got(buffer.size_bytes());
  if (!buffer.read(0, got, soon())) return -2;
  const bool same = std::ranges::all_of(got, [&](std::byte byte) { return byte == got.front(); });
  return same ? std::to_integer<std::int64_t>(got.front()) : -1;
}

/// Obeys one command of Exporter, which attach_exporter.hpp lists. Returns the answer.
std::int64_t obey(char command, std::optional<Published>& published) {
  if (command == 'w') published->publication.reset();
  if (command == 'f') published.reset();
  if (command == 'd') return open_descriptors();
  return command == 'c' ? contents_of(published->buffer) : 0;
}

/// Serves other processes and the test at the same time, like the event loop of an application.
Result<void> serve(const AttachListener& listener, std::optional<Published>& published,
                   int socket) {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{listener.fd(), POLLIN, 0}, pollfd{socket, POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) {
      HBMWIRE_TRY(listener.progress());
    }
    if (fds[1].revents == 0) continue;
    char command = 0;
    if (::recv(socket, &command, 1, 0) != 1) return {};
    const std::int64_t answer = obey(command, published);
    send_value(socket, &answer, sizeof answer);
  }
}

Result<void> run(const Exporter::Make& make, int socket) {
  HBMWIRE_TRY_ASSIGN(const Context context, Context::create());
  HBMWIRE_TRY_ASSIGN(const Nic nic, Nic::open());
  HBMWIRE_TRY_ASSIGN(Allocation memory, make(context));
  HBMWIRE_TRY_ASSIGN(Buffer buffer, Buffer::create(memory, nic, Access::remote_write));
  HBMWIRE_TRY(buffer.write(0, filled(buffer.size_bytes(), 1), soon()));
  HBMWIRE_TRY_ASSIGN(const AttachListener listener, AttachListener::create());
  HBMWIRE_TRY_ASSIGN(auto publication, listener.publish(buffer.region()));
  Hello hello;
  hello.memory_address = buffer.region().address();
  hello.secret = publication.address().secret;
  publication.address().socket.copy(hello.socket.data(), hello.socket.size() - 1);
  send_value(socket, &hello, sizeof hello);
  std::optional<Published> published(
      Published{std::move(memory), std::move(buffer), std::move(publication)});
  return serve(listener, published, socket);
}

/// Allocates with a domain that only the memory keeps alive.
Exporter::Make allocate(MemoryType type) {
  return [type](const Context& context) -> Result<Allocation> {
    HBMWIRE_TRY_ASSIGN(const auto domain, context.open(type));
    return domain->allocate(kAttachedBytes);
  };
}

}  // namespace

Exporter::Exporter(MemoryType type) : Exporter(allocate(type)) {}

Exporter::Exporter(const Make& make) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    throw std::runtime_error("socketpair");
  socket_ = Fd(pair[0]);
  Fd theirs(pair[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    socket_.reset();
    const auto result = run(make, theirs.get());
    if (!result) std::fprintf(stderr, "exporter: %s\n", describe(result.error()).c_str());
    ::_exit(result ? 0 : 1);
  }
  theirs.reset();
  Hello hello;
  if (::recv(socket_.get(), &hello, sizeof hello, MSG_WAITALL) != sizeof hello) {
    kill();
    throw std::runtime_error("the exporter failed");
  }
  address_ = {hello.socket.data(), hello.secret};
  memory_address_ = hello.memory_address;
}

Exporter::~Exporter() { kill(); }

void Exporter::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

std::int64_t Exporter::tell(char command) const {
  std::int64_t answer = -1;
  if (::send(socket_.get(), &command, 1, MSG_NOSIGNAL) != 1 ||
      ::recv(socket_.get(), &answer, sizeof answer, MSG_WAITALL) != sizeof answer)
    throw std::runtime_error("the exporter has ended");
  return answer;
}

}  // namespace hbmwire::test
