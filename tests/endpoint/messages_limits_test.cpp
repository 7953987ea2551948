// SPDX-License-Identifier: MIT
#include <optional>
#include <thread>
#include <vector>

#include "ends.hpp"
#include "heard.hpp"

/// Messages for which one end's options or path policy decide the protocol.
namespace hbmwire::test {
namespace {

/// A second connection of the same two workers, whose connecting end has its own options.
struct Other {
  Other(const Ends& ends, const EndpointOptions& options) {
    // accept() needs a handle that is not const.
    std::thread accepting(
        [&] { accepted.emplace(value(Listener(ends.listener).accept(within(10s)))); });
    connected.emplace(
        value(Endpoint::connect(ends.a_worker, ends.a->peer(), within(10s), options)));
    accepting.join();
  }

  std::optional<Endpoint> connected;
  std::optional<Endpoint> accepted;
};

TEST(Eager, TheSmallerOptionOfBothEndsCountsBothWays) {
  Ends ends;
  Other other(ends, {.eager_bytes = 1000});
  Memory memory(ends.context, MemoryType::host, 4096);
  for (const bool back : {false, true}) {
    for (const std::uint64_t size : {1000UL, 1001UL}) {
      Endpoint& from = back ? *other.accepted : *other.connected;
      Endpoint& to = back ? *other.connected : *other.accepted;
      Transfer receive = value(to.receive(memory.slice(2048, 1500)));
      Transfer send = value(from.send(memory.slice(0, size)));
      finish(ends, send);
      finish(ends, receive);
      EXPECT_EQ(send.explain().protocol,
                size == 1000 ? Protocol::eager : Protocol::rendezvous_read);
    }
  }
}

/// Only one end's policy excludes staging, and the other end learns of that.
TEST(Rendezvous, IsTheWayToAnEndWhoseListLeavesStagedOut) {
  Ends ends;
  Other other(ends, {.paths = {.allow = {Path::host, Path::zero_copy}}});
  Memory memory(ends.context, MemoryType::host, 4096);
  for (const std::uint64_t size : {0UL, 1UL, 4000UL}) {
    Transfer receive = value(other.connected->receive(memory.slice(0, size)));
    Transfer send = value(other.accepted->send(memory.slice(0, size)));
    finish(ends, receive);
    finish(ends, send);
    EXPECT_EQ(send.explain().protocol, size == 0 ? Protocol::inlined : Protocol::rendezvous_read);
  }
}

/// If receives into device memory are impossible, a message cannot stop on its way to a device.
TEST(Eager, ReachesAnEndThatLeavesNoDeviceMemoryToItsNic) {
  // The policy of the program, independent of the environment of the tests.
  const PathPolicy all{.require = {},
                       .allow = {Path::host, Path::zero_copy, Path::peer_memory, Path::staged,
                                 Path::copy, Path::tcp, Path::ipc}};
  Ends ends({}, {}, {.memory = {}, .nics = {}, .paths = all});
  for (const PathPolicy& policy :
       {PathPolicy{.allow = {Path::host}}, PathPolicy{.allow = {Path::host, Path::copy}},
        PathPolicy{.require = Path::copy}}) {
    Other other(ends, {.paths = policy});
    Memory memory(ends.context, MemoryType::host, 4096);
    Transfer receive = value(other.connected->receive(memory.slice(0, 4000)));
    Transfer send = value(other.accepted->send(memory.slice(0, 4000)));
    finish(ends, receive);
    finish(ends, send);
    EXPECT_EQ(send.explain().protocol, Protocol::eager);
    const Memory device(ends.context, MemoryType::gaudi, 4096);
    const auto refused = other.connected->receive(device.all());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::permission_denied) << describe(refused.error());
  }
}

TEST(Flood, MessagesBeyondTheReceivesAreSetAside) {
  EndpointOptions options;
  options.receive_depth = 8;
  options.unexpected_bytes = 4096;
  Ends ends(options);
  Memory source(ends.context, MemoryType::host, 4096);
  std::vector<Transfer> sends;
  for (std::uint64_t i = 0; i < 60; ++i)
    sends.push_back(value(ends.a->send(source.slice(0, 200), i)));
  for (int i = 0; i < 20000; ++i) {
    ends.a_worker.progress();
    ends.b_worker.progress();
  }
  // 4,096 bytes hold some 16 messages of 200 bytes with their headers.
  EXPECT_TRUE(sends[8 + 8].done()) << "more than receive_depth";
  EXPECT_FALSE(sends[8 + 24].done()) << "and no more than there is memory for";
}

TEST(Copies, ToADeviceAreLoggedOnce) {
  Heard heard;
  Ends ends;
  Memory source(ends.context, MemoryType::host, 4096);
  Memory target(ends.context, MemoryType::gaudi, 4096);
  constexpr const char* kSaid = "carried to device memory by the NIC";
  for (int i = 0; i < 3; ++i) {
    Transfer receive = value(ends.b->receive(target.all()));
    Transfer send = value(ends.a->send(source.slice(0, 64)));
    finish(ends, receive);
    finish(ends, send);
    ends.drive([&] { return heard.count(kSaid) != 0; });
    // Longer than the time until the endpoint is checked again.
    ends.drive([&, until = Deadline::after(700ms)] { return until.passed(); });
  }
  EXPECT_EQ(heard.count(kSaid), 1U);
}

}  // namespace
}  // namespace hbmwire::test
