// SPDX-License-Identifier: MIT
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "hbmwire/pending.hpp"

#include "ends.hpp"
#include "internals.hpp"

/// Connections, questions for memory, and closes that are started and then polled
/// (docs/endpoint.md, "Without waiting").
namespace hbmwire::test {
namespace {

/// A program that listens and sends nothing.
struct Silent {
  Silent() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(fd, 100), 0);
    socklen_t size = sizeof any;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size);
    address = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  }

  Silent(const Silent&) = delete;
  Silent& operator=(const Silent&) = delete;

  ~Silent() { ::close(fd); }

  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string address;
};

class Started : public testing::Test {
 protected:
  explicit Started(const std::string& host = "127.0.0.1", bool rdma_cm = false)
      : listener_(value(Listener::create(there_, {.address = host, .rdma_cm = rdma_cm}))),
        address_((rdma_cm ? "rdma_cm://" : "") + host + ":" + std::to_string(listener_.port())) {}

  template <class Over>
  void drive_until(const Over& over) {
    const Deadline end = Deadline::after(20s);
    while (!over()) {
      here_.progress();
      if (auto peer = listener_.try_accept()) served_.push_back(std::move(*peer));
      if (!end.passed()) continue;
      ADD_FAILURE() << "not over in time";
      return;
    }
  }

  [[nodiscard]] PendingEndpoint start(const EndpointOptions& options = {}) {
    return value(Endpoint::start_connect(here_, address_, Deadline::after(10s), options));
  }

  [[nodiscard]] Endpoint connect() {
    PendingEndpoint pending = start();
    drive_until([&] { return pending.transfer().done(); });
    return value(pending.take());
  }

  void expect_works(Endpoint& endpoint) {
    good(listener_.advertise("memory", memory_.region()));
    PendingRegion pending = value(endpoint.start_remote("memory", Deadline::after(10s)));
    drive_until([&] { return pending.transfer().done(); });
    const RemoteRegion remote = value(pending.take());
    Transfer put = value(endpoint.put(memory_.slice(0, 8), remote.slice(64, 8)));
    drive_until([&] { return put.done(); });
    EXPECT_TRUE(value(put.poll()));
    good(listener_.withdraw("memory"));
  }

  Context context_ = value(Context::create({.memory = {MemoryType::host}}));
  Worker here_ = value(Worker::create(context_));
  Worker there_ = value(Worker::create(context_));
  Memory memory_{context_, MemoryType::host, 4096};
  Listener listener_;
  std::string address_;
  std::vector<Endpoint> served_;
};

/// Options for many endpoints.
EndpointOptions small_options() {
  return {.send_depth = 2, .receive_depth = 4, .eager_bytes = 256, .peer_timeout = 20s};
}

TEST_F(Started, ConnectionsAreOverWithoutAWait) {
  PendingEndpoint pending = start();
  EXPECT_FALSE(pending.transfer().done());
  const auto early = pending.take();
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Errc::busy);
  drive_until([&] { return pending.transfer().done(); });
  EXPECT_TRUE(value(pending.transfer().poll()));
  Endpoint endpoint = value(pending.take());
  EXPECT_EQ(endpoint.peer(), address_);
  expect_works(endpoint);
  const auto again = pending.take();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::invalid_argument);
}

/// Raises the limit as far as the process may.
void allow_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(Started, AThousandConnectionsGoOnInOneThread) {
  constexpr std::uint64_t kMany = 1000;
  allow_descriptors();
  const std::string where = "localhost:" + std::to_string(listener_.port());
  std::vector<PendingEndpoint> pending;
  // Retries, because handshakes lose their places to others if this thread, which drives both ends,
  // gets no CPU for half a second.
  EndpointOptions options = small_options();
  options.retry_connect = true;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    pending.push_back(value(Endpoint::start_connect(here_, where, Deadline::after(20s), options)));
    pending.back().transfer().notify(i);
  }
  std::map<std::uint64_t, Endpoint> endpoints;
  drive_until([&] {
    while (const auto done = here_.next_done()) {
      good(done->result);
      endpoints.emplace(done->cookie, value(pending.at(done->cookie).take()));
    }
    return endpoints.size() == kMany && served_.size() == kMany;
  });
  expect_works(endpoints.at(0));
  expect_works(endpoints.at(kMany - 1));
}

TEST_F(Started, ConnectionsThatAreRefusedSayWhy) {
  PendingEndpoint pending =
      value(Endpoint::start_connect(here_, "127.0.0.1:1", Deadline::after(10s)));
  pending.transfer().notify(3);
  drive_until([&] { return pending.transfer().done(); });
  const auto done = here_.next_done();
  ASSERT_TRUE(done);
  ASSERT_FALSE(done->result);
  EXPECT_EQ(done->result.error().hint, Hint::connection_refused);
  const auto taken = pending.take();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().hint, Hint::connection_refused);
  // The pending connection reports an address without a port, not the call.
  const auto nonsense = Endpoint::start_connect(here_, "nowhere", Deadline::after(10s));
  ASSERT_TRUE(nonsense);
}

/// start_connect() and connect() refuse such options before they ask a name service.
TEST_F(Started, OptionsAreRefusedAtOnce) {
  const auto expect_refused = [&](const std::string& peer, const EndpointOptions& options) {
    const auto started = Endpoint::start_connect(here_, peer, Deadline::after(10s), options);
    ASSERT_FALSE(started) << peer;
    EXPECT_EQ(started.error().stage, Stage::configure) << describe(started.error());
    const auto connected = Endpoint::connect(here_, peer, within(10s), options);
    ASSERT_FALSE(connected) << peer;
    EXPECT_EQ(connected.error().stage, Stage::configure) << describe(connected.error());
  };
  for (const char* const peer : {"127.0.0.1:1", "name.invalid:1"}) {
    expect_refused(peer, {.send_depth = 1});
    expect_refused(peer, {.pre_shared_key = std::vector<std::byte>(1)});
    expect_refused(peer, {.paths = {.require = Path::staged, .allow = {Path::host}}});
    expect_refused(peer, {.hello = std::vector<std::byte>(2000)});
  }
  expect_refused("rdma_cm://127.0.0.1:1", {.link = {.service_level = 1}});
}

/// A call of progress() begins few handshakes, because the driver of a NIC takes time to make a
/// queue pair.
TEST_F(Started, FewConnectionsBeginWithinOneTick) {
  constexpr std::size_t kMany = 40;
  const Silent silent;
  const std::string where = "localhost" + silent.address.substr(silent.address.find(':'));
  std::vector<PendingEndpoint> pending;
  pending.reserve(kMany);
  for (std::size_t i = 0; i < kMany; ++i)
    pending.push_back(value(Endpoint::start_connect(here_, where, Deadline::after(10s))));
  // After this time the addresses of several names are known.
  std::this_thread::sleep_for(100ms);
  std::size_t most = 0;
  std::size_t before = internals::look_at(here_).handshakes;
  EXPECT_EQ(before, 0U);
  const Deadline end = Deadline::after(10s);
  while (before < kMany && !end.passed()) {
    here_.progress();
    const std::size_t now = internals::look_at(here_).handshakes;
    most = std::max(most, now - before);
    before = now;
  }
  EXPECT_EQ(before, kMany);
  EXPECT_LE(most, 4U);
}

TEST_F(Started, ConnectionsTryAgainUntilThereIsAListener) {
  const std::uint16_t port = listener_.port();
  { const Listener gone = std::move(listener_); }
  PendingEndpoint pending = start({.retry_connect = true});
  const Deadline soon = Deadline::after(200ms);
  while (!soon.passed()) here_.progress();
  EXPECT_FALSE(pending.transfer().done());
  listener_ = value(Listener::create(there_, {.address = "127.0.0.1", .port = port}));
  drive_until([&] { return pending.transfer().done(); });
  EXPECT_TRUE(pending.take());
}

TEST_F(Started, ConnectionsEndAtTheirDeadline) {
  const Silent silent;
  PendingEndpoint pending =
      value(Endpoint::start_connect(here_, silent.address, Deadline::after(100ms)));
  drive_until([&] { return pending.transfer().done(); });
  const auto taken = pending.take();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::timed_out);
  EXPECT_EQ(taken.error().hint, Hint::peer_slow);
  EXPECT_EQ(taken.error().subject, silent.address);
}

/// The deadline is so far in the past that handshakes need no sleep, and that the duration until
/// now does not fit its type.
TEST_F(Started, ADeadlineOfLongAgoIsOverAtOnce) {
  const Silent silent;
  const Deadline past(Deadline::Clock::time_point::min());
  PendingEndpoint pending = value(Endpoint::start_connect(here_, silent.address, past));
  EXPECT_EQ(here_.wake_after(), 1ms);
  here_.progress();
  drive_until([&] { return pending.transfer().done(); });
  EXPECT_EQ(pending.take().error().code, Errc::timed_out);
}

TEST_F(Started, ConnectionsAreCancelledAtOnce) {
  const Silent silent;
  PendingEndpoint pending =
      value(Endpoint::start_connect(here_, silent.address, Deadline::after(60s)));
  for (int i = 0; i < 1000; ++i) here_.progress();
  good(pending.transfer().request_cancel());
  EXPECT_TRUE(pending.transfer().done());
  const auto taken = pending.take();
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::cancelled);
  EXPECT_EQ(taken.error().subject, silent.address);
  // The deadline of a wait cancels the connection, too.
  PendingEndpoint other =
      value(Endpoint::start_connect(here_, silent.address, Deadline::after(60s)));
  const auto waited = other.transfer().wait(20ms);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::timed_out);
  EXPECT_EQ(waited.error().subject, silent.address);
}

TEST_F(Started, ConnectionsThatAreDroppedAreGivenUp) {
  const Silent silent;
  {
    PendingEndpoint pending =
        value(Endpoint::start_connect(here_, silent.address, Deadline::after(60s)));
    pending.transfer().notify(5);
  }
  const auto done = here_.next_done();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->cookie, 5U);
  EXPECT_FALSE(done->result);
  // Also drops a connection whose endpoint is ready, but was not taken.
  {
    PendingEndpoint pending = start();
    drive_until([&] { return pending.transfer().done() && !served_.empty(); });
  }
  drive_until([&] { return served_.front().phase() != EndpointPhase::ready; });
}

TEST_F(Started, QuestionsForMemoryAreAnswered) {
  Endpoint endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  good(listener_.advertise("one", memory_.region()));
  PendingRegion one = value(endpoint.start_remote("one", Deadline::after(10s)));
  PendingRegion none = value(endpoint.start_remote("none", Deadline::after(10s)));
  one.transfer().notify(1);
  none.transfer().notify(2);
  EXPECT_EQ(one.take().error().code, Errc::busy);
  drive_until([&] { return one.transfer().done() && none.transfer().done(); });
  EXPECT_EQ(value(one.take()).length_bytes(), 4096U);
  EXPECT_EQ(none.take().error().code, Errc::not_found);
  EXPECT_EQ(here_.next_done()->cookie, 1U);
  EXPECT_EQ(here_.next_done()->cookie, 2U);
  EXPECT_FALSE(endpoint.start_remote("", Deadline::after(10s)));
  // A question that the peer does not look at ends by its deadline.
  PendingRegion late = value(endpoint.start_remote("one", Deadline::after(50ms)));
  const Deadline end = Deadline::after(10s);
  while (!late.transfer().done() && !end.passed()) here_.progress();
  EXPECT_EQ(late.take().error().code, Errc::timed_out);
  PendingRegion left = value(endpoint.start_remote("one", Deadline::after(10s)));
  { const PendingRegion dropped = value(endpoint.start_remote("one", Deadline::after(10s))); }
  Transfer closed = value(endpoint.start_close(Deadline::after(10s)));
  drive_until([&] { return closed.done() && left.transfer().done(); });
}

/// The library keeps only one or two questions at the peer, which would treat more as an attack.
TEST_F(Started, AThousandQuestionsAreAnswered) {
  Endpoint endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  good(listener_.advertise("one", memory_.region()));
  std::vector<PendingRegion> asked;
  for (int i = 0; i < 1000; ++i)
    asked.push_back(value(endpoint.start_remote("one", Deadline::after(20s))));
  // Questions without a handle are answered as well.
  for (int i = 0; i < 2; ++i)
    PendingRegion dropped = std::exchange(
        asked[static_cast<std::size_t>(i)],
        value(endpoint.start_remote("none", Deadline(Deadline::Clock::time_point::min()))));
  const Deadline wakes = Deadline::after(50ms);
  while (!wakes.passed()) here_.progress();
  drive_until([&] {
    return std::ranges::all_of(asked, [](PendingRegion& one) { return one.transfer().done(); });
  });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto region = asked[i].take();
    EXPECT_EQ(region.has_value(), i >= 2) << i;
    if (region) continue;
    EXPECT_EQ(region.error().code, Errc::timed_out) << describe(region.error());
  }
  EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
  EXPECT_EQ(served_.front().phase(), EndpointPhase::ready);
  PendingRegion further = value(endpoint.start_remote("one", Deadline::after(10s)));
  drive_until([&] { return further.transfer().done(); });
  EXPECT_EQ(value(further.take()).length_bytes(), 4096U);
}

TEST_F(Started, AnAnswerKeepsNoConnection) {
  std::optional<Endpoint> endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  good(listener_.advertise("one", memory_.region()));
  PendingRegion one = value(endpoint->start_remote("one", Deadline::after(10s)));
  drive_until([&] { return one.transfer().done(); });
  const std::uint64_t id = endpoint->id();
  EXPECT_TRUE(internals::keeps_endpoint(here_, id));
  endpoint.reset();
  served_.clear();
  drive_until([&] { return internals::count_endpoints(here_) == 0; });
  EXPECT_FALSE(internals::keeps_endpoint(here_, id));
  EXPECT_EQ(value(one.take()).length_bytes(), 4096U);
}

TEST_F(Started, ClosesEndWithTheirEndpointsHandle) {
  for (const bool closes : {false, true}) {
    std::optional<Endpoint> endpoint = connect();
    // The peer makes no progress, and sends no goodbye.
    Transfer closed = value(endpoint->start_close(Deadline::after(60s)));
    const Deadline some = Deadline::after(20ms);
    while (!some.passed()) here_.progress();
    EXPECT_FALSE(closed.done());
    closes ? good(endpoint->close(within(0s))) : endpoint.reset();
    const Deadline end = Deadline::after(1s);
    while (!closed.done() && !end.passed()) here_.progress();
    EXPECT_TRUE(value(closed.poll()));
    if (!closes) continue;
    // A close that has ended does not prevent another one.
    Transfer again = value(endpoint->start_close(Deadline::after(60s)));
    EXPECT_TRUE(value(again.poll_until(within(1s))));
  }
}

/// An endpoint with transfers in flight breaks off, as when it is destroyed without start_close().
TEST_F(Started, ClosesOfBusyEndpointsEndWithTheirHandle) {
  std::optional<Endpoint> endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  Memory large(context_, MemoryType::host, 1 << 20);
  Transfer send = value(endpoint->send(large.all()));
  Transfer closed = value(endpoint->start_close(Deadline::after(60s)));
  here_.progress();
  endpoint.reset();
  drive_until([&] { return closed.done() && send.done(); });
  const auto over = closed.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::cancelled) << describe(over.error());
}

TEST_F(Started, EndpointsAreClosedWithoutAWait) {
  Endpoint endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  Transfer closed = value(endpoint.start_close(Deadline::after(10s)));
  closed.notify(9);
  const auto twice = endpoint.start_close(Deadline::after(10s));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Errc::busy);
  drive_until([&] { return closed.done(); });
  EXPECT_TRUE(value(closed.poll()));
  EXPECT_EQ(endpoint.phase(), EndpointPhase::closed);
  EXPECT_EQ(here_.next_done()->cookie, 9U);
  drive_until([&] { return served_.front().phase() == EndpointPhase::closed; });
}

TEST_F(Started, ClosesOfBusyEndpointsWaitAndEndAtTheirDeadline) {
  Endpoint endpoint = connect();
  drive_until([&] { return !served_.empty(); });
  // The endpoint is busy with a rendezvous that no receive takes.
  Memory large(context_, MemoryType::host, 1 << 20);
  Transfer send = value(endpoint.send(large.all()));
  Transfer closed = value(endpoint.start_close(Deadline::after(100ms)));
  here_.progress();
  EXPECT_FALSE(closed.done());
  EXPECT_EQ(endpoint.phase(), EndpointPhase::ready);
  drive_until([&] { return closed.done() && send.done(); });
  const auto over = closed.poll();
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::timed_out);
  EXPECT_EQ(endpoint.phase(), EndpointPhase::closed);
  EXPECT_FALSE(send.poll());
}

TEST_F(Started, EndpointsReconnectWithoutAWait) {
  Endpoint endpoint = connect();
  EXPECT_EQ(endpoint.start_reconnect(Deadline::after(10s)).error().code, Errc::busy);
  drive_until([&] { return !served_.empty(); });
  served_.clear();
  drive_until([&] { return endpoint.phase() == EndpointPhase::closed; });
  PendingEndpoint pending = value(endpoint.start_reconnect(Deadline::after(10s)));
  drive_until([&] { return pending.transfer().done(); });
  endpoint = value(pending.take());
  expect_works(endpoint);
  drive_until([&] { return !served_.empty(); });
  EXPECT_EQ(served_.front().start_reconnect(Deadline::after(1s)).error().code, Errc::not_supported);
}

/// The library's thread sleeps for up to a second if nothing is in flight.
TEST_F(Started, TheLibrarysThreadIsWoken) {
  const Worker other = value(Worker::create(context_, {.progress_thread = true}));
  const EndpointOptions retry{.retry_connect = true};
  PendingEndpoint first =
      value(Endpoint::start_connect(other, address_, Deadline::after(10s), retry));
  drive_until([&] { return first.transfer().done() && !served_.empty(); });
  const Endpoint endpoint = value(first.take());
  served_.clear();
  drive_until([&] {
    return endpoint.phase() == EndpointPhase::closed && internals::count_endpoints(there_) == 0;
  });
  std::this_thread::sleep_for(100ms);
  // The reconnect begins with a pause, and no descriptor reports the pause's end.
  PendingEndpoint again = value(endpoint.start_reconnect(Deadline::after(300ms)));
  const auto begun = std::chrono::steady_clock::now();
  drive_until([&] { return again.transfer().done(); });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 700ms);
  good(again.take().map([](const Endpoint&) {}));
}

TEST_F(Started, NamesAreLookedUpWithoutAWait) {
  const std::string name = "localhost:" + std::to_string(listener_.port());
  PendingEndpoint pending = value(Endpoint::start_connect(here_, name, Deadline::after(10s)));
  drive_until([&] { return pending.transfer().done(); });
  EXPECT_TRUE(pending.take());
}

}  // namespace
}  // namespace hbmwire::test
