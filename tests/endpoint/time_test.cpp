// SPDX-License-Identifier: MIT
#include <sys/eventfd.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/attach.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/low_level/tcp.hpp"
#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

// Extreme times. In every function and option with a time, the greatest value means "forever", zero
// and less mean "now", and no value in between is rounded to either.
namespace hbmwire::test {
namespace {

using std::chrono::nanoseconds;
using Clock = Deadline::Clock;

/// A function that waits for something that never comes.
struct Waiting {
  const char* name;
  std::function<Errc(const Wait&)> call;
};

/// Errc::system stands for success.
template <class T>
Errc code_of(const Result<T>& result) {
  return result ? Errc::system : result.error().code;
}

/// A port that accepts connections, and sends nothing.
class SilentPort {
 public:
  SilentPort() : listener_(value(tcp::Listener::listen("127.0.0.1", 0))) {}

  [[nodiscard]] std::string address() const {
    return "127.0.0.1:" + std::to_string(listener_.port());
  }

  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }

 private:
  tcp::Listener listener_;
};

class EdgesOfTime : public ::testing::Test {
 protected:
  EdgesOfTime() : memory(ends.context, MemoryType::host, 4096) {}

  /// All waiting functions except the endpoint's close() and those that end it, so that each can
  /// run after the others.
  std::vector<Waiting> waiting() {
    return {
        {"Worker::wait", [&](const Wait& wait) { return code_of(ends.a_worker.wait(wait)); }},
        {"Listener::accept", [&](const Wait& wait) { return code_of(ends.listener.accept(wait)); }},
        {"Endpoint::connect",
         [&](const Wait& wait) {
           return code_of(Endpoint::connect(ends.a_worker, silent.address(), wait));
         }},
        {"Endpoint::remote",
         [&](const Wait& wait) { return code_of(ends.a->remote("nothing", wait)); }},
        {"Transfer::wait",
         [&](const Wait& wait) {
           Transfer receive = value(ends.a->receive(memory.slice(0, 8)));
           return code_of(receive.wait(wait));
         }},
        {"EndpointInvitation::connect",
         [&](const Wait& wait) {
           auto mine = value(EndpointInvitation::create(ends.a_worker));
           const auto other = value(EndpointInvitation::create(ends.b_worker));
           return code_of(mine.connect(other.bytes(), wait));
         }},
        {"Connection::wait",
         [&](const Wait& wait) {
           auto connection = value(Connection::create(ends.a->nic(), {}));
           good(connection.connect(connection.local()));
           return code_of(connection.wait(wait));
         }},
        {"attach",
         [&](const Wait& wait) {
           const auto listener = value(AttachListener::create());
           const auto gaudi = value(ends.context.allocate(MemoryType::gaudi, 1 << 20));
           const auto region = value(ends.context.register_memory(gaudi, kAll));
           const auto published = value(listener.publish(region));
           return code_of(attach(ends.context, published.address(), wait));
         }},
        {"tcp::receive",
         [&](const Wait& wait) {
           const Fd socket = value(tcp::connect("127.0.0.1", silent.port(), within(5s)));
           std::array<std::byte, 1> byte{};
           return code_of(tcp::receive(socket.get(), byte, wait, "the peer"));
         }},
    };
  }

  Ends ends;
  Memory memory;
  SilentPort silent;
};

TEST_F(EdgesOfTime, PastTimesMeanNow) {
  const std::vector<Deadline> passed{Deadline::after(0ns),
                                     Deadline::after(-1ns),
                                     Deadline::after(nanoseconds::min()),
                                     Deadline::after(std::chrono::hours::min()),
                                     Deadline(Clock::time_point::min()),
                                     Deadline::after(1ns)};
  for (const Waiting& each : waiting()) {
    for (const Deadline& deadline : passed) {
      const auto began = Clock::now();
      EXPECT_EQ(each.call({deadline, -1}), Errc::timed_out) << each.name;
      EXPECT_LT(Clock::now() - began, 5s) << each.name;
    }
  }
}

// Each function still waits when it is cancelled some time later.
TEST_F(EdgesOfTime, TheGreatestIsForEver) {
  const std::vector<Deadline> far{Deadline::after(std::chrono::years(1)),
                                  Deadline::after(nanoseconds::max()),
                                  Deadline::after(std::chrono::hours::max()),
                                  Deadline(Clock::time_point::max()), Deadline::never()};
  for (const Waiting& each : waiting()) {
    for (const Deadline& deadline : far) {
      const Fd cancel(::eventfd(0, EFD_CLOEXEC));
      const auto began = Clock::now();
      std::thread cancelling([&] {
        std::this_thread::sleep_for(30ms);
        ::eventfd_write(cancel.get(), 1);
      });
      EXPECT_EQ(each.call({deadline, cancel.get()}), Errc::cancelled) << each.name;
      EXPECT_GE(Clock::now() - began, 30ms) << each.name;
      cancelling.join();
    }
  }
}

TEST_F(EdgesOfTime, ATransfersWaitTakesEveryUnit) {
  const auto receive = [&] { return value(ends.a->receive(memory.slice(0, 8))); };
  EXPECT_EQ(code_of(receive().wait(0ns)), Errc::timed_out);
  EXPECT_EQ(code_of(receive().wait(-5h)), Errc::timed_out);
  EXPECT_EQ(code_of(receive().wait(std::chrono::hours::min())), Errc::timed_out);
  for (const bool hours : {false, true}) {
    Transfer into = receive();
    Transfer from = value(ends.b->send(memory.slice(64, 8)));
    // The answer arrives, and the wait must not have given up before.
    std::thread other([&] { good(from.wait(10s)); });
    good(hours ? into.wait(std::chrono::hours::max()) : into.wait(nanoseconds::max()));
    other.join();
  }
}

TEST(EdgesOfTimeInOptions, AreRefusedBelowTheLeast) {
  const Context context = value(Context::create());
  const Worker worker = value(Worker::create(context));
  for (const nanoseconds time : {nanoseconds::min(), -1ns, 0ns, 1ns, nanoseconds(10ms) - 1ns}) {
    for (const EndpointOptions& options :
         {EndpointOptions{.peer_timeout = time}, EndpointOptions{.operation_timeout = time}}) {
      const auto refused = Endpoint::connect(worker, "127.0.0.1:1", within(1s), options);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Errc::invalid_argument) << describe(refused.error());
      EXPECT_EQ(code_of(EndpointInvitation::create(worker, options)), Errc::invalid_argument);
    }
    EXPECT_EQ(
        code_of(Listener::create(worker, {.address = "127.0.0.1", .handshake_timeout = time})),
        Errc::invalid_argument);
  }
}

TEST(EdgesOfTimeInOptions, TheGreatestIsForEver) {
  for (const nanoseconds time : {nanoseconds(10ms), nanoseconds(std::chrono::years(1)),
                                 nanoseconds::max() - 1ns, nanoseconds::max()}) {
    Ends ends({.peer_timeout = std::max<nanoseconds>(time, 1s), .operation_timeout = time});
    Memory memory(ends.context, MemoryType::host, 4096);
    const auto key = value(MemoryKey::pack(memory.region()));
    const auto remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
    Transfer put = value(ends.a->put(memory.slice(0, 64), remote.slice(64, 64)));
    good(put.wait(10s));
    // Long enough for several checks of the peer.
    ends.drive([&, until = Deadline::after(50ms)] { return until.passed(); });
    EXPECT_EQ(ends.a->phase(), EndpointPhase::ready) << time.count();
    EXPECT_EQ(ends.b->phase(), EndpointPhase::ready) << time.count();
    beside(ends.b_worker, [&] { good(ends.a->close(within(10s))); });
    ends.b.reset();
    ends.a.reset();
  }
}

TEST(EdgesOfTimeInOptions, AHandshakeMayTakeForEver) {
  const Context context = value(Context::create());
  Worker worker = value(Worker::create(context));
  Listener listener = value(
      Listener::create(worker, {.address = "127.0.0.1", .handshake_timeout = nanoseconds::max()}));
  const std::string where = "127.0.0.1:" + std::to_string(listener.port());
  const Endpoint here = value(Endpoint::connect(worker, where, within(10s)));
  const Endpoint there = value(listener.accept({Deadline::never(), -1}));
  EXPECT_EQ(here.phase(), EndpointPhase::ready);
  EXPECT_EQ(there.phase(), EndpointPhase::ready);
}

TEST(EdgesOfTimeInOptions, AKeyExpiresNeverNowOrWhenItIsTime) {
  const Context context = value(Context::create());
  const Memory memory(context, MemoryType::host, 4096);
  const auto pack = [&](nanoseconds time) {
    return MemoryKey::pack(memory.region(), {.expires_after = time});
  };
  for (const nanoseconds time : {nanoseconds::min(), -1ns, 0ns, nanoseconds::max() - 1ns})
    EXPECT_EQ(code_of(pack(time)), Errc::invalid_argument) << time.count();
  const auto never = value(pack(nanoseconds::max()));
  EXPECT_FALSE(never.info().expires);
  EXPECT_TRUE(never.valid());
  const auto in_a_year = value(pack(std::chrono::years(1)));
  EXPECT_TRUE(in_a_year.info().expires);
  EXPECT_TRUE(in_a_year.valid());
  const auto at_once = value(pack(1ns));
  for (const Deadline deadline = Deadline::after(10s); at_once.valid() && !deadline.passed();)
    std::this_thread::yield();
  EXPECT_FALSE(at_once.valid());
}

}  // namespace
}  // namespace hbmwire::test
