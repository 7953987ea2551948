// SPDX-License-Identifier: MIT
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hbmwire/endpoint.hpp"
#include "hbmwire/fd.hpp"

#include "ends.hpp"

/// EndpointOptions::hello: bytes of the application that tell each end which application the other
/// one is. With NICs, and without any (endpoint_hello_test.tcp).
namespace hbmwire::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kMost = 1024;

/// `size` bytes that differ for each seed. Some are zero, some are newlines, and some are not
/// UTF-8.
Bytes hello_of(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + seed);
  return bytes;
}

/// The hello that `end` received from its peer.
Bytes heard_by(const Endpoint& end) { return {end.peer_hello().begin(), end.peer_hello().end()}; }

struct Pair {
  Endpoint a;
  Endpoint b;
};

/// The ways to connect two ends. If one end connects to a listener, it is `a`.
struct Meeting {
  virtual ~Meeting() = default;
  virtual Pair meet(const EndpointOptions& a, const EndpointOptions& b) = 0;

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
};

struct ByListener : Meeting {
  explicit ByListener(bool rdma_cm = false) : rdma_cm_(rdma_cm) {}

  Pair meet(const EndpointOptions& a, const EndpointOptions& b) override {
    Listener listener = value(
        Listener::create(worker, {.address = "127.0.0.1", .rdma_cm = rdma_cm_, .endpoint = b}));
    const std::string where =
        (rdma_cm_ ? "rdma_cm://127.0.0.1:" : "127.0.0.1:") + std::to_string(listener.port());
    Endpoint connected = value(Endpoint::connect(worker, where, within(10s), a));
    return {std::move(connected), value(listener.accept(within(10s)))};
  }

 private:
  bool rdma_cm_;
};

struct ByInvitation : Meeting {
  Pair meet(const EndpointOptions& a, const EndpointOptions& b) override {
    auto of_a = value(EndpointInvitation::create(worker, a));
    auto of_b = value(EndpointInvitation::create(worker, b));
    EXPECT_LE(of_a.bytes().size(), 512 + a.hello.size())
        << "an invitation has at most 512 bytes besides its hello";
    good(of_a.start(of_b.bytes()));
    Endpoint b_end = value(of_b.connect(of_a.bytes(), within(10s)));
    std::optional<Endpoint> a_end;
    const Deadline deadline = Deadline::after(10s);
    while (!a_end && !deadline.passed()) a_end = value(of_a.poll());
    return {std::move(a_end).value(), std::move(b_end)};
  }
};

using Way = std::string;

std::unique_ptr<Meeting> meeting_by(const Way& way) {
  if (way == "invitation") return std::make_unique<ByInvitation>();
  return std::make_unique<ByListener>(way == "rdma_cm");
}

class Hello : public ::testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<Meeting> by = meeting_by(GetParam());
};

TEST_P(Hello, EveryLengthArrivesWithTheEndpointBothWays) {
  for (const bool keyed : {false, true}) {
    for (const auto& [of_a, of_b] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, 0}, {1, 0}, {0, kMost}, {kMost, 20}, {kMost, kMost}}) {
      EndpointOptions a{.hello = hello_of(of_a, 1)};
      EndpointOptions b{.hello = hello_of(of_b, 2)};
      if (keyed) a.pre_shared_key = b.pre_shared_key = key_of(1);
      const Pair ends = by->meet(a, b);
      EXPECT_EQ(heard_by(ends.b), a.hello) << "with a key: " << keyed;
      EXPECT_EQ(heard_by(ends.a), b.hello) << "with a key: " << keyed;
    }
  }
}

TEST_P(Hello, AHelloStaysToTheEndOfTheEndpoint) {
  std::optional<Pair> ends(by->meet({.hello = hello_of(9, 1)}, {.hello = hello_of(kMost, 2)}));
  Endpoint moved = std::move(ends->a);
  ends.reset();
  const Deadline deadline = Deadline::after(10s);
  while (moved.phase() == EndpointPhase::ready && !deadline.passed()) by->worker.progress();
  EXPECT_NE(moved.phase(), EndpointPhase::ready);
  EXPECT_EQ(heard_by(moved), hello_of(kMost, 2));
}

INSTANTIATE_TEST_SUITE_P(By, Hello, ::testing::Values("listener", "rdma_cm", "invitation"),
                         [](const auto& test) { return test.param; });

void expect_too_long(const Error& error) {
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.stage, Stage::configure);
  EXPECT_NE(describe(error).find("hello has at most 1024 bytes"), std::string::npos)
      << describe(error);
}

TEST(HelloTooLong, AHelloThatIsTooLongIsRefusedWhereItIsGiven) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  const EndpointOptions options{.hello = Bytes(kMost + 1)};
  const auto listener = Listener::create(worker, {.address = "127.0.0.1", .endpoint = options});
  ASSERT_FALSE(listener);
  expect_too_long(listener.error());
  const auto connected = Endpoint::connect(worker, "127.0.0.1:1", within(1s), options);
  ASSERT_FALSE(connected);
  expect_too_long(connected.error());
  const auto invitation = EndpointInvitation::create(worker, options);
  ASSERT_FALSE(invitation);
  expect_too_long(invitation.error());
}

/// A proxy between a listener and its client. Forwards TCP unchanged, except for one bit of the
/// first occurrence of `altered`. Works until it is destroyed.
class Meddler {
 public:
  Meddler(std::uint16_t listener, Bytes altered)
      : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), altered_(std::move(altered)) {
    sockaddr_in at = loopback(0);
    auto* const place = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listening_.get(), place, size), 0);
    EXPECT_EQ(::listen(listening_.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening_.get(), place, &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::jthread([this, listener](const std::stop_token& stop) { run(stop, listener); });
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }

  void run(const std::stop_token& stop, std::uint16_t listener) {
    const Fd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const Fd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(listener);
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return;
    std::array<pollfd, 2> both{pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
    while (!stop.stop_requested()) {
      ::poll(both.data(), both.size(), 10);
      for (std::size_t from = 0; from < 2; ++from) {
        if ((both.at(from).revents & (POLLIN | POLLHUP)) == 0) continue;
        if (!carry(both.at(from).fd, both.at(1 - from).fd)) return;
      }
    }
  }

  /// Returns false if an end has closed.
  bool carry(int from, int to) {
    std::array<std::byte, 4096> bytes;
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    const auto come = std::span(bytes).first(static_cast<std::size_t>(got));
    const auto at = std::search(come.begin(), come.end(), altered_.begin(), altered_.end());
    if (at != come.end()) at[2] ^= std::byte{16};
    return ::send(to, come.data(), come.size(), MSG_NOSIGNAL) == got;
  }

  Fd listening_;
  std::uint16_t port_ = 0;
  Bytes altered_;
  std::jthread thread_;  // must end first
};

/// A hello that was altered in the network, in either direction.
class HelloAltered : public ::testing::TestWithParam<bool> {
 protected:
  /// Connects two ends with hellos; that of the end that `GetParam()` names is altered.
  Result<Pair> meet(const std::vector<std::byte>& key) {
    const bool of_listener = GetParam();
    const Meddler between(listen(key), hello_of(40, of_listener ? 2 : 1));
    auto a = Endpoint::connect(worker, "127.0.0.1:" + std::to_string(between.port()), within(10s),
                               {.pre_shared_key = key, .hello = hello_of(40, 1)});
    if (!a) return tl::make_unexpected(a.error());
    HBMWIRE_TRY_ASSIGN(Endpoint b, listener->accept(within(10s)));
    return Pair{std::move(*a), std::move(b)};
  }

  std::uint16_t listen(const std::vector<std::byte>& key) {
    listener = value(Listener::create(
        worker,
        {.address = "127.0.0.1", .endpoint = {.pre_shared_key = key, .hello = hello_of(40, 2)}}));
    return listener->port();
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  std::optional<Listener> listener;
};

TEST_P(HelloAltered, IsRefusedWhereThereIsAPreSharedKey) {
  const auto none = meet(key_of(1));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::permission_denied) << describe(none.error());
  EXPECT_EQ(none.error().hint, Hint::pre_shared_key);
  EXPECT_FALSE(listener->try_accept());
}

TEST_P(HelloAltered, ProvesNothingWithoutAKey) {
  const Pair ends = value(meet({}));
  Bytes other = hello_of(40, GetParam() ? 2 : 1);
  other[2] ^= std::byte{16};
  EXPECT_EQ(heard_by(GetParam() ? ends.a : ends.b), other);
}

INSTANTIATE_TEST_SUITE_P(Of, HelloAltered, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Listener" : "WhoConnects"; });

/// The peer ends, and another process takes its port; here it is another listener.
TEST(HelloOfReconnect, IsThatOfTheNewPeer) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  const auto listen = [&](std::uint16_t port, const std::string& name) {
    const auto bytes = std::as_bytes(std::span(name));
    return value(Listener::create(
        worker, {.address = "127.0.0.1",
                 .port = port,
                 .endpoint = {.peer_timeout = 100ms, .hello = {bytes.begin(), bytes.end()}}}));
  };
  const auto text = [](const Endpoint& end) {
    const auto bytes = end.peer_hello();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::optional<Listener> listener(listen(0, "incarnation 1"));
  const std::uint16_t port = listener->port();
  Endpoint a = value(Endpoint::connect(worker, "127.0.0.1:" + std::to_string(port), within(10s),
                                       {.peer_timeout = 100ms, .hello = hello_of(5, 3)}));
  { const Endpoint b = value(listener->accept(within(10s))); }
  EXPECT_EQ(text(a), "incarnation 1");
  const Deadline deadline = Deadline::after(10s);
  while (a.phase() != EndpointPhase::closed && a.phase() != EndpointPhase::failed &&
         !deadline.passed()) {
    worker.progress();
  }
  listener.reset();
  EXPECT_FALSE(a.reconnect(within(100ms)));
  EXPECT_EQ(text(a), "incarnation 1") << "a refused reconnect leaves all as before";
  listener.emplace(listen(port, "another incarnation"));
  good(a.reconnect(within(10s)));
  const Endpoint b = value(listener->accept(within(10s)));
  EXPECT_EQ(text(a), "another incarnation");
  EXPECT_EQ(heard_by(b), hello_of(5, 3)) << "the new connection brings it again";
}

}  // namespace
}  // namespace hbmwire::test
