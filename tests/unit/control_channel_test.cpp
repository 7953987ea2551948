// SPDX-License-Identifier: MIT
#include "tools/wire/control_channel.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "hbmwire/fd.hpp"
#include "hbmwire/log.hpp"
#include "hbmwire/settings.hpp"

#include "tests/support/few_descriptors.hpp"
#include "tools/wire/control_listener.hpp"

namespace hbmwire::tools::wire {
namespace {

using namespace std::chrono_literals;

Wait within(std::chrono::milliseconds time) { return {Deadline::after(time), -1}; }

/// A listener on a free loopback port, and raw sockets to it.
class ControlChannelTest : public testing::Test {
 protected:
  ControlChannelTest() : listener_(std::move(*ControlListener::listen("127.0.0.1", 0))) {}

  Fd raw() const {
    Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(listener_.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  Result<ControlChannel> serve(std::chrono::milliseconds time = 2000ms) {
    auto accepted = listener_.accept(within(time));
    if (!accepted) return tl::make_unexpected(accepted.error());
    return ControlChannel::accept(std::move(accepted->socket), accepted->peer, within(time));
  }

  /// Connects a pair. The client sends first, as every client does.
  std::pair<ControlChannel, ControlChannel> pair() {
    auto client = std::async(std::launch::async, [&] {
      auto channel = ControlChannel::connect("127.0.0.1", listener_.port(), within(2000ms));
      EXPECT_TRUE(channel->send(Ready{}, within(1000ms)));
      return channel;
    });
    auto server = serve();
    EXPECT_TRUE(server->expect<Ready>(within(1000ms)));
    return {std::move(*server), std::move(*client.get())};
  }

  ControlListener listener_;
};

TEST_F(ControlChannelTest, CarriesMessagesBothWays) {
  auto [server, client] = pair();
  ASSERT_TRUE(
      client.send(Hello{.size_bytes = 5, .file_name = "f", .memory = "host"}, within(1000ms)));
  const auto hello = server.expect<Hello>(within(1000ms));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->size_bytes, 5U);
  ASSERT_TRUE(server.send(Welcome{.size_bytes = 6, .memory = {}}, within(1000ms)));
  EXPECT_EQ(client.expect<Welcome>(within(1000ms))->size_bytes, 6U);
}

TEST_F(ControlChannelTest, OutOfDescriptorsItTellsThePeerWhyAndGoesOn) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at memory by pipe(2), which takes descriptors";
#endif
  std::atomic<int> logged{0};
  set_log_sink([&](LogLevel, std::string_view line) {
    if (line.find("Too many open files") != std::string_view::npos) ++logged;
  });
  const auto connect = [&]() -> std::pair<Error, std::string> {
    auto channel = ControlChannel::connect("127.0.0.1", listener_.port(), within(2000ms));
    if (!channel) return {channel.error(), {}};
    if (const auto said = channel->send(Hello{}, within(2000ms)); !said) return {said.error(), {}};
    const auto answer = channel->expect<Welcome>(within(2000ms));
    return {answer ? Error{} : answer.error(), channel->abort_text()};
  };
  std::future<std::pair<Error, std::string>> refused;
  {
    const test::FewDescriptors few(1);  // for the socket of the connecting side
    refused = std::async(std::launch::async, connect);
    EXPECT_EQ(listener_.accept(within(1000ms)).error().code, Errc::timed_out);
  }
  const auto [error, text] = refused.get();
  EXPECT_EQ(error.code, Errc::peer_failed) << describe(error);
  EXPECT_NE(text.find("Too many open files"), std::string::npos) << text;
  EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
  EXPECT_EQ(logged, 1);
  set_log_sink({});
  auto [server, client] = pair();
  EXPECT_TRUE(client.send(Hello{}, within(1000ms)));
}

TEST_F(ControlChannelTest, RefusesAnotherProtocol) {
  const Fd peer = raw();
  const std::string_view text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::send(peer.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  const auto channel = serve();
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::protocol);
  EXPECT_EQ(channel.error().hint, Hint::not_hbmwire);
}

TEST_F(ControlChannelTest, RefusesAnotherVersion) {
  const Fd peer = raw();
  // The greeting with version 0x63.
  const std::string_view preamble("hbmwire\n\x00\x63\0\0\0\0\0\0", 16);
  ASSERT_EQ(::send(peer.get(), preamble.data(), preamble.size(), 0), 16);
  const auto channel = serve();
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().hint, Hint::other_version);
  EXPECT_NE(
      describe(channel.error()).find("version 99 there, " + std::to_string(kVersion) + " here"),
      std::string::npos)
      << describe(channel.error());
}

TEST_F(ControlChannelTest, RefusesAnOversizedFrameBeforeReadingIt) {
  const Fd peer = raw();
  // A greeting, and a frame of 4 GiB.
  const std::string_view bytes("hbmwire\n\x00\x02\0\0\0\0\0\0\xff\xff\xff\xff\x00\x01", 22);
  ASSERT_EQ(::send(peer.get(), bytes.data(), bytes.size(), 0), 22);
  auto channel = serve();
  ASSERT_TRUE(channel);
  const auto message = channel->receive(within(1000ms));
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Errc::protocol);
}

TEST_F(ControlChannelTest, NoticesAPeerThatLeaves) {
  auto [server, client] = pair();
  { const ControlChannel gone = std::move(client); }
  const auto message = server.receive(within(2000ms));
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Errc::peer_failed);
}

TEST_F(ControlChannelTest, GivesTheReasonOfAPeerThatAborts) {
  auto [server, client] = pair();
  ASSERT_TRUE(client.send(Abort{"disk\x1b full"}, within(1000ms)));
  const auto ready = server.expect<Ready>(within(1000ms));
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, Errc::peer_failed);
  EXPECT_EQ(server.abort_text(), "disk? full");
}

TEST_F(ControlChannelTest, WaitsNoLongerThanAllowed) {
  auto [server, client] = pair();
  const auto message = server.receive(within(50ms));
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Errc::timed_out);
}

TEST_F(ControlChannelTest, CancelsAtOnce) {
  auto [server, client] = pair();
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  const auto message = server.receive({Deadline::after(10s), cancel.get()});
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, Errc::cancelled);
}

TEST_F(ControlChannelTest, SilentConnectionsDelayNoClient) {
  std::vector<Fd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(raw());  // fewer than the backlog
  auto [server, client] = pair();
  ASSERT_TRUE(client.send(Ready{1}, within(1000ms)));
  EXPECT_TRUE(server.expect<Ready>(within(1000ms)));
}

// The beginning of a greeting, a whole greeting, and the beginning of a message: the listener must
// not wait for the rest of any of them.
TEST_F(ControlChannelTest, ConnectionsThatSendAnIncompleteHelloKeepNoClientWaiting) {
  const std::string_view begun("hbmwire\n\x00\x02\0\0\0\0\0\0\0\0\0\x02\0", 21);
  std::vector<Fd> half_open;
  for (const std::size_t length : {1U, 7U, 15U, 16U, 17U, 21U}) {
    half_open.push_back(raw());
    const auto sent = ::send(half_open.back().get(), begun.data(), length, 0);
    ASSERT_EQ(sent, static_cast<ssize_t>(length));
  }
  const auto start = std::chrono::steady_clock::now();
  auto [server, client] = pair();
  ASSERT_TRUE(client.send(Ready{1}, within(1000ms)));
  EXPECT_TRUE(server.expect<Ready>(within(1000ms)));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 1s);
}

TEST_F(ControlChannelTest, APortProbeIsSeenAtOnce) {
  raw();
  const auto channel = serve();
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().code, Errc::peer_failed);
}

TEST(ControlListener, WaitsNoLongerThanAllowed) {
  auto listener = ControlListener::listen("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  EXPECT_EQ(listener->accept(within(0ms)).error().code, Errc::timed_out);
  const Fd cancel{::eventfd(1, EFD_CLOEXEC)};
  EXPECT_EQ(listener->accept({Deadline::never(), cancel.get()}).error().code, Errc::cancelled);
}

TEST(ControlListener, SaysWhenThePortIsTaken) {
  const auto first = ControlListener::listen("127.0.0.1", 0);
  ASSERT_TRUE(first);
  const auto second = ControlListener::listen("127.0.0.1", first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::busy);
  EXPECT_EQ(second.error().hint, Hint::port_in_use);
}

TEST(ControlListener, TakesBothFamiliesWithoutAnAddress) {
  auto listener = ControlListener::listen("", 0);
  ASSERT_TRUE(listener);
  for (const char* host : {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
    auto client = std::async(std::launch::async, [&] {
      auto channel = ControlChannel::connect(host, listener->port(), {Deadline::after(2s), -1});
      return channel && channel->send(Ready{}, {Deadline::after(2s), -1});
    });
    auto accepted = listener->accept({Deadline::after(2s), -1});
    ASSERT_TRUE(accepted) << host;
    EXPECT_TRUE(ControlChannel::accept(std::move(accepted->socket), accepted->peer,
                                       {Deadline::after(2s), -1}));
    EXPECT_TRUE(client.get());
  }
}

TEST(ControlChannel, ReportsAMissingListener) {
  std::uint16_t port = 0;
  {
    const auto listener = ControlListener::listen("127.0.0.1", 0);
    port = listener->port();
  }
  const auto channel = ControlChannel::connect("127.0.0.1", port, {Deadline::after(2s), -1});
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().hint, Hint::connection_refused);
}

TEST(ControlChannel, SaysThatANameIsUnknown) {
  const auto channel =
      ControlChannel::connect("no-such-host.invalid", 1, {Deadline::after(8s), -1});
  ASSERT_FALSE(channel);
  EXPECT_EQ(channel.error().hint, Hint::name_resolution) << describe(channel.error());
}

}  // namespace
}  // namespace hbmwire::tools::wire
