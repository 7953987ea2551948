// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>

#include "connect/backoff.hpp"
#include "listening_port.hpp"

/// Peers that connect before a listener exists, and peers that reconnect.
namespace hbmwire::test {
namespace {

/// A port of this machine without a listener.
std::uint16_t free_port(const Worker& worker) {
  return value(Listener::create(worker, {.address = "127.0.0.1"})).port();
}

TEST(Retry, ConnectFindsAListenerThatComesLater) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  const Worker client = value(Worker::create(context));
  const std::uint16_t port = free_port(worker);
  const std::string at = "127.0.0.1:" + std::to_string(port);
  Result<Endpoint> endpoint = tl::make_unexpected(Error{});
  std::thread connects(
      [&] { endpoint = Endpoint::connect(client, at, within(10s), {.retry_connect = true}); });
  std::this_thread::sleep_for(300ms);
  Listener listener = value(Listener::create(worker, {.address = "127.0.0.1", .port = port}));
  const auto accepted = listener.accept(within(10s));
  connects.join();
  EXPECT_TRUE(accepted) << describe(accepted.error());
  EXPECT_TRUE(endpoint) << describe(endpoint.error());
}

TEST(Retry, ConnectEndsAtTheDeadlineWithTheLastRefusal) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  const std::string at = "127.0.0.1:" + std::to_string(free_port(worker));
  const auto before = std::chrono::steady_clock::now();
  const auto none = Endpoint::connect(worker, at, within(300ms), {.retry_connect = true});
  const auto took = std::chrono::steady_clock::now() - before;
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::connection_refused) << describe(none.error());
  EXPECT_GE(took, 300ms);
  EXPECT_LT(took, 3s);
}

TEST(Retry, ReconnectTriesOnceEvenWithoutTimeForAPause) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker client = value(Worker::create(context));
  Worker worker = value(Worker::create(context));
  std::optional<Listener> listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
  const std::string at = "127.0.0.1:" + std::to_string(listener->port());
  std::optional<Endpoint> endpoint;
  std::thread connects([&] {
    endpoint = value(Endpoint::connect(client, at, within(10s), {.retry_connect = true}));
  });
  { const Endpoint accepted = value(listener->accept(within(10s))); }
  connects.join();
  listener.reset();
  while (worker.progress() != 0) continue;
  good(endpoint->wait_closed(within(10s)));
  for (const auto time : {0ms, 1ms}) {
    // Repeats, because a busy kernel may not have refused the connection after so little time.
    const Deadline until = Deadline::after(10s);
    auto none = endpoint->reconnect(within(time));
    while (!none && none.error().code == Errc::timed_out && !until.passed())
      none = endpoint->reconnect(within(time));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().hint, Hint::connection_refused) << describe(none.error());
  }
}

TEST(Retry, APermanentRefusalIsNotRetried) {
  ListeningPort port({.endpoint = {.pre_shared_key = key_of(1)}});
  const auto before = std::chrono::steady_clock::now();
  const auto none = Endpoint::connect(port.worker, port.at(), within(10s),
                                      {.pre_shared_key = key_of(2), .retry_connect = true});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::permission_denied) << describe(none.error());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s);
}

TEST(Retry, APauseCanBeCancelled) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  const std::string at = "127.0.0.1:" + std::to_string(free_port(worker));
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd cancel(ends[0]);
  std::thread cancels([write = Fd(ends[1])]() mutable {
    std::this_thread::sleep_for(300ms);
    write.reset();
  });
  const auto none =
      Endpoint::connect(worker, at, {Deadline::after(10s), cancel.get()}, {.retry_connect = true});
  cancels.join();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::cancelled) << describe(none.error());
  EXPECT_EQ(none.error().stage, Stage::connect);
}

TEST(Retry, PausesGrowUpToASecond) {
  detail::Backoff backoff;
  std::chrono::nanoseconds most = 20ms;
  for (int i = 0; i < 20; ++i) {
    const auto pause = backoff.next();
    EXPECT_GE(pause, 0ns);
    EXPECT_LE(pause, most) << i;
    most = std::min<std::chrono::nanoseconds>(2 * most, 1s);
  }
}

/// A thousand begin at the same moment. Fewer than 200 try again within the same tenth of a second.
TEST(Retry, ReconnectsOfTheSameMomentAreSpread) {
  std::array<int, 10> tenths{};
  for (int i = 0; i < 1000; ++i) {
    const auto pause = detail::Backoff::before_reconnect(20s);
    ASSERT_LE(pause, 1s);
    ++tenths.at(static_cast<std::size_t>(std::min<std::int64_t>(pause / 100ms, 9)));
  }
  for (const int tenth : tenths) EXPECT_LT(tenth, 200);
  EXPECT_LE(detail::Backoff::before_reconnect(400ms), 100ms);
  EXPECT_EQ(detail::Backoff::before_reconnect(0ms), 0ms);
}

TEST(Retry, ReconnectBeginsWithAPause) {
  ListeningPort port;
  Endpoint a =
      value(Endpoint::connect(port.worker, port.at(), within(10s), {.retry_connect = true}));
  std::chrono::nanoseconds longest = 0ns;
  for (int i = 0; i < 5; ++i) {
    value(port.listener->accept(within(10s)));  // the accepted endpoint is destroyed at once
    while (a.phase() != EndpointPhase::closed) port.worker.progress();
    const auto before = std::chrono::steady_clock::now();
    good(a.reconnect(within(10s)));
    longest =
        std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - before);
  }
  // Five pauses of up to a second are all shorter than this only once in 100,000 runs.
  EXPECT_GT(longest, 100ms);
}

}  // namespace
}  // namespace hbmwire::test
