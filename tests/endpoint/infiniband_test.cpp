// SPDX-License-Identifier: MIT
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"

/// emu0 and emu1 have ports of InfiniBand, emu2 one of Ethernet.
namespace hbmwire::test {
namespace {

constexpr const char* kApart = "one side's port is Ethernet (RoCE), the other's InfiniBand";

Context on(const char* nic) {
  return value(Context::create({.memory = {MemoryType::host}, .nics = {nic}}));
}

TEST(InfiniBand, EndpointsMeetByTcpAndMoveEveryWay) {
  Ends ends;
  EXPECT_FALSE(ends.a->nic().info().ethernet);
  for (const MemoryType type : {MemoryType::host, MemoryType::gaudi}) {
    Memory source(ends.context, type, 65536);
    Memory target(ends.context, type, 65536);
    source.fill(1);
    target.fill(2);
    const MemoryKey key = value(MemoryKey::pack(target.region()));
    const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
    good(value(ends.a->put(source.all(), remote.slice(0, 65536))).wait(10s));
    EXPECT_TRUE(same_bytes(target.contents(), source.contents()));
    target.fill(3);
    good(value(ends.a->get(source.all(), remote.slice(0, 65536))).wait(10s));
    EXPECT_TRUE(same_bytes(source.contents(), pattern(65536, 3)));
    source.fill(4);
    Transfer receive = value(ends.b->receive(target.all()));
    Transfer send = value(ends.a->send(source.all()));
    ends.drive([&] { return send.done() && receive.done(); });
    good(send.wait(10s));
    good(receive.wait(10s));
    EXPECT_TRUE(same_bytes(target.contents(), pattern(65536, 4)));
  }
}

TEST(InfiniBand, EndpointsMeetByInvitationBetweenTwoNics) {
  const Context first = on("emu0");
  const Context second = on("emu1");
  const Worker a_worker = value(Worker::create(first));
  const Worker b_worker = value(Worker::create(second));
  auto [a, b] = invite(a_worker, b_worker);
  Memory source(first, MemoryType::host, 4096);
  Memory target(second, MemoryType::host, 4096);
  source.fill(1);
  target.fill(2);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(a.remote(value(RemoteKey::unpack(key.bytes()))));
  good(value(a.put(source.all(), remote.slice(0, 4096))).wait(10s));
  EXPECT_TRUE(same_bytes(target.contents(), source.contents()));
}

void expect_apart(const Error& error) {
  EXPECT_EQ(error.stage, Stage::connect);
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_NE(describe(error).find(kApart), std::string::npos) << describe(error);
}

TEST(InfiniBand, InfiniBandAndEthernetAreRefusedWhenTheyMeet) {
  for (const bool listens_on_ethernet : {false, true}) {
    const Context listening = on(listens_on_ethernet ? "emu2" : "emu0");
    const Context connecting = on(listens_on_ethernet ? "emu0" : "emu2");
    Worker a_worker = value(Worker::create(connecting));
    Worker b_worker = value(Worker::create(listening));
    Listener listener = value(Listener::create(b_worker, {.address = "127.0.0.1", .port = 0}));
    Result<Endpoint> refused = tl::make_unexpected(Error{});
    std::thread other([&] {
      refused =
          Endpoint::connect(a_worker, "127.0.0.1:" + std::to_string(listener.port()), within(20s));
    });
    EXPECT_FALSE(listener.accept(within(500ms)));
    other.join();
    ASSERT_FALSE(refused);
    expect_apart(refused.error());
  }
}

TEST(InfiniBand, InfiniBandAndEthernetAreRefusedWhenInvited) {
  const Worker a_worker = value(Worker::create(on("emu0")));
  const Worker b_worker = value(Worker::create(on("emu2")));
  EndpointInvitation a = value(EndpointInvitation::create(a_worker));
  EndpointInvitation b = value(EndpointInvitation::create(b_worker));
  for (const auto& refused : {a.start(b.bytes()), b.start(a.bytes())}) {
    ASSERT_FALSE(refused);
    expect_apart(refused.error());
  }
}

}  // namespace
}  // namespace hbmwire::test
