// SPDX-License-Identifier: MIT
#include <atomic>
#include <string>
#include <thread>

#include "hbmwire/memory_key.hpp"

#include "connect/connect_to.hpp"
#include "endpoint/endpoint_state.hpp"
#include "ends.hpp"
#include "heard.hpp"

/// A peer that completes the handshake, and then sends invalid messages on the control lane.
namespace hbmwire::test {
namespace {

std::vector<std::byte> raw(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Worker worker_of(const Context& context, bool own_receives) {
  Worker worker = value(Worker::create(context));
  if (own_receives) state_of(worker).nics.front().shares_receives = false;
  return worker;
}

struct Attack {
  /// Calls `connect`, and drives the listener's worker in another thread meanwhile.
  template <class Connect>
  auto with_listener(const Connect& connect) {
    std::atomic<bool> over{false};
    std::thread serving([&] {
      while (!over) worker.progress();
    });
    auto connected = connect();
    over = true;
    serving.join();
    return value(std::move(connected));
  }

  /// `own_receives`: the attacker's endpoint has receives of its own, which it shares with no
  /// other.
  explicit Attack(bool own_receives = false)
      : attacker(worker_of(context, own_receives)),
        hostile(with_listener(
            [&] { return detail::connect_to(shared_state_of(attacker), at(), within(10s), {}); })),
        victim(value(listener.accept(within(10s)))),
        bystander_peer(
            with_listener([&] { return Endpoint::connect(attacker, at(), within(10s)); })),
        bystander(value(listener.accept(within(10s)))) {}

  Attack(const Attack&) = delete;
  Attack& operator=(const Attack&) = delete;

  ~Attack() {
    // Ends the attacker's endpoint, which has no handle.
    hostile->keeps_worker.reset();
    hostile->ending.abandon();
  }

  [[nodiscard]] std::string at() const { return "127.0.0.1:" + std::to_string(listener.port()); }

  void say(std::vector<std::byte> bytes) const { hostile->control.say_bytes(std::move(bytes)); }

  /// Expects that the victim fails in time and names its peer, and that nothing else fails.
  void expect_failure(Errc code, const char* part) {
    const Deadline deadline = Deadline::after(10s);
    while (victim.phase() != EndpointPhase::failed && !deadline.passed()) {
      attacker.progress();
      worker.progress();
    }
    ASSERT_EQ(victim.phase(), EndpointPhase::failed);
    EXPECT_EQ(victim.error()->code, code);
    const std::string sentence = describe(*victim.error());
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
    EXPECT_NE(sentence.find(victim.peer()), std::string::npos) << sentence;
    EXPECT_EQ(bystander.phase(), EndpointPhase::ready);
    Memory memory(context, MemoryType::host, 4096);
    const MemoryKey key = value(MemoryKey::pack(memory.region()));
    const RemoteRegion remote = value(bystander_peer.remote(value(RemoteKey::unpack(key.bytes()))));
    good(value(bystander_peer.put(memory.slice(0, 64), remote.slice(64, 64))).wait(10s));
  }

  Context context = value(Context::create({.memory = {MemoryType::host}}));
  Worker worker = value(Worker::create(context));
  Worker attacker;
  Listener listener = value(Listener::create(worker, {.address = "127.0.0.1"}));
  std::shared_ptr<detail::EndpointState> hostile;
  Endpoint victim;
  Endpoint bystander_peer;
  Endpoint bystander;
};

TEST(Hostile, Garbage) {
  Attack attack;
  attack.say(raw("garbage"));
  attack.expect_failure(Errc::protocol, "malformed");
}

TEST(Hostile, AnEmptyMessage) {
  Attack attack;
  attack.say({});
  attack.expect_failure(Errc::protocol, "malformed");
}

TEST(Hostile, ANameThatIsTooLong) {
  Attack attack;
  attack.say(raw(std::string("\5\0\0\0\1\1\0", 7) + std::string(256, 'n')));
  attack.expect_failure(Errc::protocol, "malformed");
}

TEST(Hostile, ALongerMessageThanThereMayBe) {
  Attack attack;
  // say_bytes() has buffers only for allowed sizes.
  Memory memory(attack.context, MemoryType::host, 8192);
  ASSERT_EQ(
      attack.hostile->control.post(memory.region().address(), 4096,
                                   *state_of(memory.region()).local_key(*attack.hostile->nic)),
      0);
  attack.expect_failure(Errc::protocol, "too long");
}

TEST(Hostile, AProbeOfAnEndThatWasNotInvited) {
  Attack attack;
  attack.say(wire::encode(wire::Probe{}));
  attack.expect_failure(Errc::permission_denied, "probes");
}

TEST(Hostile, TheEndOfARailThatThereIsNot) {
  Attack attack;
  attack.say(wire::encode(wire::RailClosed{2}));  // the victim asked for no such answer
  attack.say(wire::encode(wire::RailDown{1}));
  attack.expect_failure(Errc::protocol, "rail");
}

TEST(Hostile, AnUnrequestedCopy) {
  Attack attack;
  attack.say(wire::encode(wire::IpcCopied{1, wire::IpcCopied::Outcome::copied}));
  attack.expect_failure(Errc::protocol, "not asked");
}

TEST(Hostile, TwoCopiesAtATime) {
  Attack attack;
  // Acts as if a copy that the peer asked for earlier were in flight.
  for (const auto& endpoint : state_of(attack.worker).endpoints)
    endpoint->movers.ipc.set_serving(true);
  attack.say(wire::encode(wire::IpcCopy{.id = 1, .token = 1, .handle = {.length_bytes = 1}}));
  attack.expect_failure(Errc::protocol, "one at a time");
}

/// As with a policy without `ipc`, no engine is opened for this place.
TEST(Hostile, ACopyThatThisEndRefusesIsLoggedOnce) {
  Heard heard;
  Attack attack;
  for (std::uint32_t i = 1; i < 4; ++i)
    attack.say(wire::encode(wire::IpcCopy{.id = i, .token = 1, .handle = {.length_bytes = 1}}));
  const Deadline deadline = Deadline::after(300ms);
  while (!deadline.passed()) {
    attack.worker.progress();
    attack.hostile->control.say_waiting();
  }
  EXPECT_EQ(heard.count("asked for a copy by IPC, and does not get it"), 1U);
}

TEST(Hostile, PiecesThatAreShared) {
  Heard heard;
  Attack attack;
  const wire::SharePieces pieces{
      .address = 1,
      .handle = {.type = MemoryType::host, .block_bytes = 4096, .length_bytes = 4096}};
  attack.say(wire::encode(pieces));
  const Deadline deadline = Deadline::after(300ms);
  while (!deadline.passed()) attack.worker.progress();
  EXPECT_EQ(attack.victim.phase(), EndpointPhase::ready)
      << "the handle is that of no memory of hbmwire";
  EXPECT_EQ(heard.count("and not through shared host memory"), 1U);
  attack.say(wire::encode(pieces));
  attack.expect_failure(Errc::protocol, "again");
}

TEST(Hostile, WordOfPiecesThatWereNotShared) {
  Attack attack;
  attack.say(wire::encode(wire::PiecesShared{true}));
  attack.expect_failure(Errc::protocol, "not asked");
}

TEST(Hostile, WordOfQueuePairsOutOfTurn) {
  for (const wire::ControlMessage& word :
       {wire::ControlMessage(wire::QueuePairs{}), wire::ControlMessage(wire::QueuePairsReady{})}) {
    Attack attack;
    attack.say(wire::encode(word));
    attack.expect_failure(Errc::protocol, "out of turn");
  }
}

TEST(Hostile, QuestionsWithoutTakingAnswers) {
  Attack attack(true);
  // The first answers use up the attacker's receives, because it posts no new ones.
  attack.hostile->control.stop_receiving();
  const std::vector<std::byte> question = wire::encode(wire::LookUp{1, "nothing"});
  const Deadline deadline = Deadline::after(10s);
  while (attack.victim.phase() == EndpointPhase::ready && !deadline.passed()) {
    for (int i = 0; i < 4 && attack.hostile->control.backlog() < 64; ++i) attack.say(question);
    attack.worker.progress();
    // Only the attacker's sends make progress.
    if (!attack.hostile->control.has_free_buffer()) attack.attacker.progress();
    attack.hostile->control.say_waiting();
  }
  EXPECT_NE(attack.victim.phase(), EndpointPhase::ready);
}

TEST(Hostile, UnrequestedAnswers) {
  Attack attack;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    attack.say(wire::encode(wire::Found{i, std::vector<std::byte>(100)}));
    attack.attacker.progress();
    attack.worker.progress();
  }
  const Deadline deadline = Deadline::after(10s);
  while (attack.hostile->control.backlog() != 0 && !deadline.passed()) {
    attack.attacker.progress();
    attack.worker.progress();
  }
  EXPECT_EQ(attack.victim.phase(), EndpointPhase::ready);
}

}  // namespace
}  // namespace hbmwire::test
