// SPDX-License-Identifier: MIT
#include "peer.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string_view>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "tests/endpoint/ends.hpp"
#include "tests/library/fd_passing.hpp"
#include "tests/support/stream.hpp"

namespace hbmwire::test {

namespace {

struct Question {
  Peer::Ask what{};
  std::uint64_t number = 0;
};

struct AnswerHeader {
  std::uint64_t value = 0;
  std::uint64_t bytes = 0;
  bool failed = false;
};

/// The work of a peer, in a thread or a process.
class Body {
 public:
  Body(const Way& way, std::uint64_t bytes, int socket)
      : socket_(socket),
        context_(
            value(Context::create({.memory = {}, .nics = way.peers_nics, .paths = way.paths}))),
        worker_(value(Worker::create(context_))),
        listener_(value(
            Listener::create(worker_, {.address = "127.0.0.1", .endpoint = {.peer_timeout = 1s}}))),
        memory_(allocate_for(context_, way, way.there, bytes)),
        region_(value(context_.register_memory(memory_, kAll))) {
    good(listener_.advertise("target", region_, {.revocable = true}));
    // Peer's constructor waits for the port.
    const std::uint16_t port = listener_.port();
    EXPECT_TRUE(write_value(socket_, port));
  }

  void run() {
    for (;;) {
      if (is_readable(socket_)) {
        Question question;
        if (!read_value(socket_, question)) return;
        if (!answer(question)) return;
      }
      if (paused_) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      if (auto accepted = listener_.try_accept()) ends_.push_back(std::move(*accepted));
      if (worker_.progress() == 0) std::this_thread::yield();
    }
  }

 private:
  bool answer(const Question& question) {
    Peer::Answer answer;
    switch (question.what) {
      case Peer::Ask::fill:
        good(memory_.domain().copy_in(
            memory_.address(),
            pattern(region_.size_bytes(), static_cast<unsigned>(question.number)), within(20s)));
        break;
      case Peer::Ask::contents:
        answer.bytes = contents();
        break;
      case Peer::Ask::receive:
        take(answer, [&](Endpoint& end) { return end.receive(region_.slice(0, question.number)); });
        break;
      case Peer::Ask::receive_immediate:
        take(answer, [&](Endpoint& end) {
          return end.receive_immediate(region_.slice(0, region_.size_bytes()));
        });
        break;
      case Peer::Ask::pause:
        paused_ = true;
        break;
      case Peer::Ask::go_on:
        paused_ = false;
        break;
      case Peer::Ask::revoke:
        good(listener_.withdraw("target"));
        break;
      case Peer::Ask::drop_endpoints:
        ends_.clear();
        break;
    }
    const AnswerHeader header{answer.value, answer.bytes.size(), answer.failed};
    return write_value(socket_, header) && write_all(socket_, answer.bytes);
  }

  /// Receives by `begin` at the newest connection. Answers with the result and the memory's
  /// contents.
  template <class Begin>
  void take(Peer::Answer& answer, const Begin& begin) {
    while (ends_.empty()) {
      if (auto accepted = listener_.try_accept()) ends_.push_back(std::move(*accepted));
      worker_.progress();
    }
    Result<Transfer> transfer = begin(ends_.back());
    if (!transfer || !transfer->wait(within(20s))) {
      answer.failed = true;
      return;
    }
    // The immediate, if one came.
    answer.value = transfer->value() != 0 ? transfer->value() : transfer->bytes();
    answer.bytes = contents();
  }

  /// Reads with its own engine, which sees bytes from a NIC only after they were made visible.
  [[nodiscard]] std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(region_.size_bytes());
    good(memory_.domain().copy_out(memory_.address(), bytes, within(20s)));
    return bytes;
  }

  int socket_;
  Context context_;
  Worker worker_;
  Listener listener_;
  Allocation memory_;
  Region region_;
  std::vector<Endpoint> ends_;
  bool paused_ = false;
};

/// The parameters of a peer's process; it uses ways()[way].
struct Order {
  std::size_t way = 0;
  std::uint64_t bytes = 0;
};

/// Starts peers in processes of their own. It is forked before this process opens anything, because
/// a child by fork(2) cannot use opened devices.
class Nursery {
 public:
  Nursery() {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) std::abort();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(pair[0]);
      serve(pair[1]);
    }
    ::close(pair[1]);
    socket_ = Fd{pair[0]};
  }

  /// Starts a peer that gets its order through `peers_socket`.
  void make(int peers_socket) const { send_fd(socket_.get(), peers_socket); }

 private:
  [[noreturn]] static void serve(int socket) {
    ::signal(SIGCHLD, SIG_IGN);  // children need no wait(2)
    for (;;) {
      Fd peers_socket = receive_fd(socket);
      if (!peers_socket) ::_exit(0);
      if (::fork() == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::signal(SIGCHLD, SIG_DFL);
        set_log_sink([](LogLevel, std::string_view) {});
        Order order;
        if (read_value(peers_socket.get(), order))
          Body(ways()[order.way], order.bytes, peers_socket.get()).run();
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
      }
    }
  }

  Fd socket_;
};

std::optional<Nursery> nursery;

/// Forks before the first test, when nothing is open.
class MakesNursery : public ::testing::Environment {
  void SetUp() override { nursery.emplace(); }

  void TearDown() override { nursery.reset(); }
};

const ::testing::Environment* const kMakesNursery =
    ::testing::AddGlobalTestEnvironment(new MakesNursery);

std::size_t index_of(const Way& way) {
  std::size_t index = 0;
  while (std::string_view(ways()[index].name) != way.name) ++index;
  return index;
}

}  // namespace

Peer::Peer(const Way& way, std::uint64_t bytes) {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  socket_ = Fd{pair[0]};
  Fd peers{pair[1]};
  if (way.two_processes) {
    nursery->make(peers.get());
    peers.reset();
    const Order order{index_of(way), bytes};
    EXPECT_TRUE(write_value(socket_.get(), order));
  } else {
    thread_ = std::thread([way, bytes, socket = std::move(peers)] {
      Body body(way, bytes, socket.get());
      body.run();
    });
  }
  EXPECT_TRUE(read_value(socket_.get(), port_));
}

Peer::~Peer() {
  // The peer finds the closed socket the next time it looks. For a process, this also waits until
  // all its resources are released.
  ::shutdown(socket_.get(), SHUT_WR);
  char byte = 0;
  while (::recv(socket_.get(), &byte, 1, 0) > 0) {
  }
  if (thread_.joinable()) thread_.join();
}

void Peer::tell(Ask what, std::uint64_t number) const {
  const Question question{what, number};
  EXPECT_TRUE(write_value(socket_.get(), question));
}

Peer::Answer Peer::hear(const std::function<void()>& meanwhile) const {
  const Deadline deadline = Deadline::after(30s);
  while (!is_readable(socket_.get())) {
    meanwhile();
    if (!deadline.passed()) continue;
    ADD_FAILURE() << "the peer does not answer";
    return {.value = 0, .bytes = {}, .failed = true};
  }
  AnswerHeader header;
  Answer answer;
  answer.failed = !read_value(socket_.get(), header);
  answer.value = header.value;
  answer.failed = answer.failed || header.failed;
  answer.bytes.resize(header.bytes);
  EXPECT_TRUE(read_all(socket_.get(), answer.bytes));
  return answer;
}

Peer::Answer Peer::ask(Ask what, std::uint64_t number,
                       const std::function<void()>& meanwhile) const {
  tell(what, number);
  return hear(meanwhile);
}

}  // namespace hbmwire::test
