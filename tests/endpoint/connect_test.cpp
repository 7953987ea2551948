// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/tcp.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "name_service.hpp"
#include "stranger.hpp"

/// Connecting to a listener. One thread with one worker drives both ends.
namespace hbmwire::test {
namespace {

/// A listener and the endpoints that connect to it, all of one worker.
struct Port {
  explicit Port(const ListenerOptions& options = {.address = "127.0.0.1"})
      : listener(value(Listener::create(worker, options))) {}

  [[nodiscard]] std::string at(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(listener.port());
  }

  [[nodiscard]] Result<Endpoint> connect(const EndpointOptions& options = {},
                                         std::chrono::nanoseconds time = 10s) const {
    return Endpoint::connect(worker, at(), within(time), options);
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  Listener listener;
};

/// Puts 64 bytes from one place of a region to another, and expects that they arrive.
void expect_works(const Context& context, Endpoint& from) {
  Memory memory(context, MemoryType::host, 4096);
  memory.fill(1);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = value(from.remote(value(RemoteKey::unpack(key.bytes()))));
  good(value(from.put(memory.slice(0, 64), remote.slice(64, 64))).wait(10s));
  const auto contents = memory.contents();
  EXPECT_TRUE(std::equal(contents.begin(), contents.begin() + 64, contents.begin() + 64));
}

/// A TCP address that never answers: its queue of connections is full, so the kernel drops new
/// ones.
class SilentAddress {
 public:
  SilentAddress(const char* address, std::uint16_t port) : listening_(open(SOCK_STREAM)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, address, &at.sin_addr), 1);
    const auto* const where = reinterpret_cast<const sockaddr*>(&at);
    EXPECT_EQ(::bind(listening_.get(), where, sizeof at), 0);
    EXPECT_EQ(::listen(listening_.get(), 0), 0);
    // Some of these fill the queue; the kernel drops the others already.
    for (int i = 0; i < 4; ++i) {
      filling_.push_back(open(SOCK_STREAM | SOCK_NONBLOCK));
      EXPECT_EQ(::connect(filling_.back().get(), where, sizeof at), -1);
      EXPECT_EQ(errno, EINPROGRESS);
    }
  }

 private:
  static Fd open(int type) { return Fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0)); }

  Fd listening_;
  std::vector<Fd> filling_;
};

TEST(Connect, OneThreadMeetsItself) {
  Port port;
  Endpoint a = value(port.connect());
  Endpoint b = value(port.listener.accept(within(10s)));
  EXPECT_EQ(a.peer(), port.at());
  expect_works(port.context, a);
  expect_works(port.context, b);
}

TEST(Connect, ByIpv6AndByName) {
  Port port(ListenerOptions{});
  for (const char* host : {"[::1]", "localhost", "127.0.0.1", "tcp://[::1]", "tcp://localhost"}) {
    Endpoint a = value(Endpoint::connect(port.worker, port.at(host), within(10s)));
    Endpoint b = value(port.listener.accept(within(10s)));
    expect_works(port.context, a);
  }
}

TEST(Connect, TakesTheFirstAddressOfANameThatAnswers) {
  const Port port;
  set_addresses({"127.0.0.2", "::1", "127.0.0.1"});  // nothing listens at the first two
  Endpoint a = value(Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(10s)));
  // accept() needs a handle that is not const.
  Endpoint b = value(Listener(port.listener).accept(within(10s)));
  expect_works(port.context, a);
  EXPECT_FALSE(look_up_takes(SIGINT)) << "a handler of the application's may run in our thread";
  set_addresses({"127.0.0.2", "::1"});
  const auto none = Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(10s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::connection_refused) << describe(none.error());
}

TEST(Connect, LeavesAnAddressThatStaysSilentForTheNextOne) {
  const Port port;
  const SilentAddress silent("127.0.0.3", port.listener.port());
  set_addresses({"127.0.0.3", "127.0.0.1"});
  const auto before = std::chrono::steady_clock::now();
  Endpoint a = value(Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(3s)));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 1400ms) << "it had half of the time";
  Endpoint b = value(Listener(port.listener).accept(within(10s)));
  expect_works(port.context, a);
  set_addresses({"127.0.0.3", "127.0.0.3"});
  const auto none = Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(600ms));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::timed_out) << describe(none.error());
  EXPECT_EQ(none.error().hint, Hint::host_unreachable) << describe(none.error());
}

TEST(Connect, LeavesAnAddressThatRefusesAtOnce) {
  const Port port;
  set_addresses({"127.0.0.2", "127.0.0.1"});  // there is no listener at the first one
  const auto before = std::chrono::steady_clock::now();
  Endpoint a = value(Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(20s)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 5s) << "an equal share is 10 s";
}

TEST(Connect, GivesTheLastAddressTheRestOfTheTime) {
  const Port port;
  const SilentAddress silent("127.0.0.3", port.listener.port());
  set_addresses({"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3"});
  const auto before = std::chrono::steady_clock::now();
  const auto none = Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(1200ms));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::timed_out) << describe(none.error());
  EXPECT_GE(std::chrono::steady_clock::now() - before, 1200ms) << "an equal share is 300 ms";
}

/// A slow address gets time to answer before the next one is tried.
TEST(Connect, GivesEachAddressAQuarterOfASecond) {
  const Port port;
  const SilentAddress silent("127.0.0.3", port.listener.port());
  set_addresses({"127.0.0.3", "127.0.0.3", "127.0.0.3", "127.0.0.3", "127.0.0.1"});
  const auto before = std::chrono::steady_clock::now();
  const auto none = Endpoint::connect(port.worker, port.at(kSeveralAddresses), within(400ms));
  ASSERT_FALSE(none) << "an equal share is 80 ms, after which the last one answers";
  EXPECT_EQ(none.error().code, Errc::timed_out) << describe(none.error());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
}

TEST(Connect, LeavesSilentAddressesOfControlChannelsToo) {
  const auto listener = value(tcp::Listener::listen("127.0.0.1", 0));
  const SilentAddress silent("127.0.0.3", listener.port());
  set_addresses({"127.0.0.3", "127.0.0.1"});
  const auto before = std::chrono::steady_clock::now();
  const auto socket = tcp::connect(kSeveralAddresses, listener.port(), within(4s));
  EXPECT_TRUE(socket) << describe(socket.error());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3500ms) << "the second one had no time left";
}

/// Each look-up has a thread. Further look-ups wait until one of these ends.
TEST(Connect, EightNamesAreLookedUpAtATime) {
  Port port;
  set_addresses({"127.0.0.1"});
  most_look_ups(20ms);
  std::vector<PendingEndpoint> pending;
  const std::string where = port.at(kSeveralAddresses);
  for (int i = 0; i < 50; ++i)
    pending.push_back(value(Endpoint::start_connect(port.worker, where, Deadline::after(10s))));
  std::vector<Endpoint> accepted;
  for (PendingEndpoint& one : pending) {
    while (!one.transfer().done()) {
      port.worker.progress();
      if (auto peer = port.listener.try_accept()) accepted.push_back(std::move(*peer));
    }
    EXPECT_TRUE(one.take());
  }
  EXPECT_EQ(most_look_ups(), 8U);
}

TEST(Connect, AnInvalidAddressIsReported) {
  Port port;
  for (const char* where : {"", "host", ":7000", "host:0", "host:70000", "::1:7000", "host:70x"}) {
    const auto none = Endpoint::connect(port.worker, where, within(1s));
    ASSERT_FALSE(none) << where;
    EXPECT_EQ(none.error().code, Errc::invalid_argument) << where;
  }
}

TEST(Connect, AnAddressWithoutAListenerRefuses) {
  Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  const auto none = Endpoint::connect(worker, "127.0.0.1:1", within(5s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::connection_refused);
}

TEST(Connect, AListenerThatDoesNotSpeakIsAwaitedUntilTheDeadline) {
  Port port;
  // The kernel accepts the connection, but nothing answers, because the listener belongs to another
  // worker.
  const Worker other = value(Worker::create(port.context));
  const auto before = std::chrono::steady_clock::now();
  const auto none = Endpoint::connect(other, port.at(), within(200ms));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::timed_out);
  EXPECT_EQ(none.error().stage, Stage::connect);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
}

TEST(Accept, TakesReadyPeersWithoutWaiting) {
  Port port;
  EXPECT_FALSE(port.listener.try_accept());
  const auto none = port.listener.accept(within(0s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::timed_out);
  EXPECT_EQ(none.error().stage, Stage::connect);
  std::vector<Endpoint> ends;
  for (int i = 0; i < 8; ++i) ends.push_back(value(port.connect()));
  for (int i = 0; i < 8; ++i) {
    auto accepted = port.listener.try_accept();
    ASSERT_TRUE(accepted) << i;
    ends.push_back(std::move(*accepted));
  }
  EXPECT_FALSE(port.listener.try_accept());
  for (Endpoint& end : ends) EXPECT_EQ(end.phase(), EndpointPhase::ready);
}

TEST(Accept, AdvertisedMemoryStaysAsLongAsAnEndpoint) {
  std::optional<Port> port(std::in_place);
  const Context context = port->context;
  const Worker worker = port->worker;
  std::optional<Memory> memory(std::in_place, context, MemoryType::host, 4096);
  good(port->listener.advertise("target", memory->region()));
  memory.reset();  // the listener's key keeps it alive
  Endpoint a = value(port->connect());
  const Endpoint b = value(port->listener.accept(within(10s)));
  port.reset();
  const RemoteRegion target = value(a.remote("target", within(5s)));
  const Memory own(context, MemoryType::host, 64);
  good(value(a.put(own.all(), target.slice(0, 64))).wait(5s));
}

TEST(Accept, StrangersDelayNoPeer) {
  Heard heard;
  Port port(
      ListenerOptions{.address = "127.0.0.1", .handshake_timeout = 300ms, .max_handshakes = 4});
  std::vector<Stranger> strangers;
  for (int i = 0; i < 3; ++i) strangers.emplace_back(port.listener.port());
  strangers[1].say("GET / HTTP/1.1\r\n\r\n");
  // The third stranger sends only the beginning of a greeting.
  strangers[2].say(std::string("hbmw-ep\n\0\1", 10));
  const auto before = std::chrono::steady_clock::now();
  Endpoint a = value(port.connect());
  Endpoint b = value(port.listener.accept(within(10s)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 250ms);
  expect_works(port.context, a);
  // Strangers are dropped in time, even if more come than max_handshakes.
  for (int i = 0; i < 6; ++i) strangers.emplace_back(port.listener.port());
  const Deadline deadline = Deadline::after(10s);
  const auto all = [&] {
    return std::ranges::all_of(strangers, [](const Stranger& s) { return s.is_let_go(); });
  };
  while (!all() && !deadline.passed()) static_cast<void>(port.worker.wait(within(10ms)));
  EXPECT_TRUE(all());
  EXPECT_EQ(heard.count("another protocol"), 1U);
  EXPECT_EQ(a.phase(), EndpointPhase::ready);
  expect_works(port.context, b);
}

TEST(Accept, AFloodOfStrangersDoesNotFloodTheLog) {
  Heard heard;
  Port port;
  for (int i = 0; i < 100; ++i) {
    const Stranger stranger(port.listener.port());
    stranger.say("x");
    static_cast<void>(port.worker.wait(within(1ms)));
  }
  EXPECT_LE(heard.count("another protocol"), 30U);
  EXPECT_GE(heard.count("another protocol"), 1U);
  Endpoint a = value(port.connect());
  Endpoint b = value(port.listener.accept(within(10s)));
}

// Load balancers probe ports by connecting and sending nothing.
TEST(Accept, AStrangerThatSendsNothingCausesNoWarning) {
  Heard heard;
  Port port;
  const auto drive = [&] {
    for (const Deadline until = Deadline::after(200ms); !until.passed();)
      static_cast<void>(port.worker.wait(within(5ms)));
  };
  { const Stranger stranger(port.listener.port()); }
  drive();
  EXPECT_EQ(heard.count("closed the connection"), 0U);
  {
    const Stranger stranger(port.listener.port());
    stranger.say("h");  // the beginning of a greeting
    drive();
  }
  drive();
  EXPECT_EQ(heard.count("closed the connection"), 1U);
}

TEST(Key, OnlyTheSameKeyConnects) {
  Port port(ListenerOptions{.address = "127.0.0.1", .endpoint = {.pre_shared_key = key_of(1)}});
  Endpoint a = value(port.connect({.pre_shared_key = key_of(1)}));
  Endpoint b = value(port.listener.accept(within(10s)));
  expect_works(port.context, a);
  Heard heard;
  for (const auto& wrong : {key_of(2), std::vector<std::byte>{}}) {
    const auto none = port.connect({.pre_shared_key = wrong});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::permission_denied) << describe(none.error());
    EXPECT_EQ(none.error().hint, Hint::pre_shared_key);
  }
  EXPECT_FALSE(port.listener.try_accept());
  EXPECT_EQ(heard.count("pre-shared key"), 2U);
  EXPECT_EQ(a.phase(), EndpointPhase::ready);
}

TEST(Key, ComesFromAFileThatOthersMayNotRead) {
  const std::string path = std::string(::testing::TempDir()) + "key-" + std::to_string(::getpid());
  const auto key = key_of(1);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(key.data()), static_cast<std::streamsize>(key.size()));
  ::setenv("HBMWIRE_PRE_SHARED_KEY_FILE", path.c_str(), 1);
  Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Worker worker = value(Worker::create(context));
  ::chmod(path.c_str(), 0644);
  const auto open = Listener::create(worker, {.address = "127.0.0.1"});
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().hint, Hint::pre_shared_key_file);
  ::chmod(path.c_str(), 0600);
  Listener listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
  const std::string at = "127.0.0.1:" + std::to_string(listener.port());
  Endpoint a = value(Endpoint::connect(worker, at, within(10s)));
  Endpoint b = value(listener.accept(within(10s)));
  const auto none = Endpoint::connect(worker, at, within(10s), {.pre_shared_key = key_of(2)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::permission_denied);
  ::unlink(path.c_str());
  const auto gone = Endpoint::connect(worker, at, within(10s));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::not_found);
  ::unsetenv("HBMWIRE_PRE_SHARED_KEY_FILE");
}

TEST(Key, AMissingKeyIsLoggedOnce) {
  Heard heard;
  const Port first;
  const Port second;
  // The count is 0 if an earlier test already caused this message.
  EXPECT_LE(heard.count("not authenticated"), 1U);
}

TEST(ACopyOfAContext, HasTheOriginalsNicsAndDomains) {
  const Context context = value(Context::create({.memory = {MemoryType::host}}));
  const Context copy =
      context;  // NOLINT(performance-unnecessary-copy-initialization): tests a copy
  EXPECT_EQ(value(copy.open(MemoryType::host)), value(context.open(MemoryType::host)));
  const auto nics = value(context.open_nics());
  const auto nics_of_copy = value(copy.open_nics());
  EXPECT_EQ(&nics_of_copy.front().info(), &nics.front().info());
}

TEST(Settings, TcpAloneNeedsNoNic) {
  Heard heard;
  const Context context = value(Context::create(
      {.memory = {MemoryType::host}, .nics = {"none"}, .paths = {.allow = {Path::tcp}}}));
  const Worker worker = value(Worker::create(context));
  EXPECT_EQ(heard.count("endpoints go by TCP"), 0U);
}

TEST(Settings, NameTheNics) {
  ::setenv("HBMWIRE_NICS", "emu1", 1);
  Context context = value(Context::create({.memory = {MemoryType::host}}));
  ::unsetenv("HBMWIRE_NICS");
  EXPECT_EQ(value(context.open_nics()).front().info().name, "emu1");
  Context own = value(Context::create({.memory = {MemoryType::host}, .nics = {"emu0"}}));
  EXPECT_EQ(value(own.open_nics()).front().info().name, "emu0");
}

TEST(Settings, NameThePaths) {
  ::setenv("HBMWIRE_REQUIRE_PATH", "zero_copy", 1);
  ::setenv("HBMWIRE_PATHS", "zero_copy,host", 1);
  Context context = value(Context::create({.memory = {MemoryType::host}}));
  EXPECT_EQ(context.paths(),
            (PathPolicy{.require = Path::zero_copy, .allow = {Path::zero_copy, Path::host}}));
  ::setenv("HBMWIRE_PATHS", "host", 1);
  EXPECT_FALSE(Context::create({.memory = {MemoryType::host}}));
  ::unsetenv("HBMWIRE_REQUIRE_PATH");
  ::unsetenv("HBMWIRE_PATHS");
}

}  // namespace
}  // namespace hbmwire::test
