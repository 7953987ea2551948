// SPDX-License-Identifier: MIT
#include "memory_key_attack.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/buffer.hpp"
#include "hbmwire/context.hpp"
#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"

#include "emulation/tests/nic/child_process.hpp"
#include "helpers.hpp"
#include "tests/support/bytes.hpp"

// Tests a key against a peer that bypasses the library: memory_key_attacker.cpp.
namespace hbmwire {
namespace {

using namespace std::chrono_literals;
using test::kBoth;
using test::must;
using test::same_bytes;
using test::soon;
using test::take;
using test::attack::Attempt;
using test::attack::Knock;
using test::attack::Order;

constexpr std::size_t kSize = 20'000;
constexpr std::uint64_t kOffset =
    8'190;  // of the key within the region; not aligned to a page or word
constexpr std::uint64_t kLength = 3'005;

/// The attacker's process.
class AttackerProcess {
 public:
  AttackerProcess() : line_(-1) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("socketpair");
    const std::string fd = std::to_string(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::execl(HBMWIRE_ATTACKER, HBMWIRE_ATTACKER, fd.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    line_ = test::Line(ends[0]);
  }

  AttackerProcess(const AttackerProcess&) = delete;
  AttackerProcess& operator=(const AttackerProcess&) = delete;

  ~AttackerProcess() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  [[nodiscard]] const test::Line& line() const { return line_; }

  /// Returns its exit status.
  int end() {
    line_.send(Order{});
    int status = -1;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  test::Line line_;
  pid_t pid_ = 0;
};

/// The exporter: its memory's region is accessible only through a key.
class MemoryKeyAttack : public testing::TestWithParam<MemoryType> {
 protected:
  static Allocation allocate() {
    MemoryOptions options;
    if (GetParam() == MemoryType::gaudi) options.owner = MemoryOptions::Owner::hl_thunk;
    return take(take(take(hbmwire::Context::create()).open(GetParam(), options))->allocate(kSize));
  }

  MemoryKeyAttack() {
    std::uint32_t value = 1;
    for (auto& byte : model_)
      byte = static_cast<std::byte>((value = value * 1664525U + 1013904223U) >> 24U);
    must(contents_.write(0, model_, soon()));
  }

  MemoryKey pack(MemoryKeyOptions options) {
    options.offset_bytes = kOffset;
    options.length_bytes = kLength;
    return take(MemoryKey::pack(region_, options));
  }

  /// Lets the attacker work, and checks that only allowed accesses have an effect.
  void attack(Order::Kind kind, const MemoryKey& key) {
    give(kind, key);
    const test::Line& line = attacker_.line();
    for (auto knock = line.receive<Knock>(); knock.more; knock = line.receive<Knock>()) {
      const Connection connection = let_in(knock);
      check(line.receive<Attempt>());
    }
  }

  void give(Order::Kind kind, const MemoryKey& key) {
    Order order;
    order.kind = kind;
    order.regions_own_key = region_.remote(nics_[0]).remote_key;
    std::memcpy(order.key.data(), key.bytes().data(), key.bytes().size());
    attacker_.line().send(order);
  }

  Connection let_in(const Knock& knock) {
    Connection connection = take(Connection::create(nics_.at(knock.nic), {}));
    ConnectionAddress peer;
    std::copy(std::begin(knock.from.gid.raw), std::end(knock.from.gid.raw), peer.gid.begin());
    peer.queue_pair = knock.from.qpn;
    peer.packet_sequence = knock.from.psn;
    peer.mtu_bytes = 1024;
    peer.max_message_bytes = 1U << 30U;
    must(connection.connect(peer));
    must(connection.post_receive(1, {}));  // for a write with immediate
    test::Address mine;
    std::ranges::copy(connection.local().gid, std::begin(mine.gid.raw));
    mine.qpn = connection.local().queue_pair;
    mine.psn = connection.local().packet_sequence;
    attacker_.line().send(mine);
    return connection;
  }

  std::vector<std::byte> contents() {
    std::vector<std::byte> bytes(kSize);
    must(contents_.read(0, bytes, soon()));
    return bytes;
  }

  [[nodiscard]] const test::Line& line() const { return attacker_.line(); }

  [[nodiscard]] const std::vector<std::byte>& model() const { return model_; }

  int end_attacker() { return attacker_.end(); }

  int allowed_ = 0;
  int refused_ = 0;

 private:
  void check(const Attempt& attempt) {
    SCOPED_TRACE(attempt.what.data());
    const std::span bytes(attempt.bytes.data(),
                          std::min<std::size_t>(attempt.length, attempt.bytes.size()));
    if (attempt.allowed) {
      ++allowed_;
      EXPECT_EQ(attempt.status, IBV_WC_SUCCESS);
      const std::span part(model_.data() + (attempt.address - region_.address()), bytes.size());
      if (attempt.write) std::memcpy(part.data(), bytes.data(), bytes.size());
      EXPECT_EQ(std::memcmp(part.data(), bytes.data(), bytes.size()), 0) << "what was read";
    } else {
      ++refused_;
      // The connection does not allow atomics, which is an error in the request (IBTA 9.7.5.2.2).
      const bool said_no = attempt.status == IBV_WC_REM_ACCESS_ERR ||
                           (attempt.atomic && attempt.status == IBV_WC_REM_INV_REQ_ERR);
      EXPECT_TRUE(said_no) << attempt.status;
      EXPECT_FALSE(attempt.disclosed);
    }
    EXPECT_TRUE(same_bytes(contents(), model_)) << "bytes were changed";
  }

  AttackerProcess attacker_;  // made before anything here is opened
  std::array<Nic, 2> nics_{take(Nic::open("emu0")), take(Nic::open("emu1"))};
  Allocation memory_ = allocate();
  Region region_ = take(Nic::register_memory(nics_, memory_, Access::local_write));
  // Uses a separate NIC, whose registrations no connection of the attacker can reach.
  Buffer contents_ = take(Buffer::create(memory_, take(Nic::open("emu0")), Access::local_write));
  std::vector<std::byte> model_ = std::vector<std::byte>(kSize);
};

TEST_P(MemoryKeyAttack, GetsNoMoreThanTheKeyAllows) {
  attack(Order::Kind::attack, pack({.access = kBoth}));
  EXPECT_EQ(allowed_, 2 * 2 * 5) << "two NICs, both ways, five ranges within the key";
  EXPECT_GT(refused_, 2 * 2 * 11) << "eleven ranges outside of the key, and atomics";
  attack(Order::Kind::attack, pack({.access = Access::remote_write}));
  attack(Order::Kind::attack, pack({.access = Access::remote_read}));
  EXPECT_EQ(allowed_, 2 * 2 * 5 + 2 * 2 * 5);
  EXPECT_EQ(end_attacker(), 0);
}

TEST_P(MemoryKeyAttack, GuessesNoOtherKey) {
  const MemoryKey key = pack({.access = kBoth});
  attack(Order::Kind::guess, key);
  EXPECT_GT(refused_, 200);
  attack(Order::Kind::attack, key);
  EXPECT_GT(allowed_, 0);
  EXPECT_EQ(end_attacker(), 0);
}

TEST_P(MemoryKeyAttack, GetsNothingAfterTheKeyWasRevoked) {
  MemoryKey key = pack({.access = kBoth, .revocable = true});
  attack(Order::Kind::attack, key);
  EXPECT_GT(allowed_, 0);
  const int before = std::exchange(refused_, 0);
  EXPECT_GT(before, 0);
  must(key.revoke());
  attack(Order::Kind::dead, key);
  EXPECT_EQ(refused_, 8) << "two NICs, both ways, two ranges";
  EXPECT_EQ(end_attacker(), 0);
}

TEST_P(MemoryKeyAttack, ChangesNothingOnceRevokeHasReturned) {
  for (int round = 0; round < 10; ++round) {
    MemoryKey key = pack({.access = Access::remote_write, .revocable = true});
    give(Order::Kind::hammer, key);
    const Connection connection = let_in(line().receive<Knock>());
    ASSERT_TRUE(line().receive<bool>()) << "the first write";
    std::this_thread::sleep_for(2ms);
    must(key.revoke());
    const auto after = contents();
    ASSERT_EQ(line().receive<Attempt>().status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_TRUE(same_bytes(contents(), after)) << "bytes moved by a revoked key";
    EXPECT_TRUE(std::equal(after.begin(), after.begin() + kOffset, model().begin()));
    EXPECT_TRUE(std::equal(after.begin() + kOffset + kLength, after.end(),
                           model().begin() + kOffset + kLength));
    EXPECT_FALSE(after == model()) << "the attacker has written before";
  }
  EXPECT_EQ(end_attacker(), 0);
}

TEST_P(MemoryKeyAttack, GetsNothingAfterTheKeyHasExpired) {
  const auto deadline = Deadline::Clock::now() + 60s;
  const MemoryKey key = pack({.access = kBoth, .expires_after = 1s});
  attack(Order::Kind::use, key);
  EXPECT_EQ(allowed_, 8);
  while (key.valid() && Deadline::Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(key.valid());
  refused_ = 0;
  attack(Order::Kind::dead, key);
  EXPECT_EQ(refused_, 8);
  EXPECT_EQ(end_attacker(), 0);
}

INSTANTIATE_TEST_SUITE_P(Memory, MemoryKeyAttack,
                         testing::Values(MemoryType::host, MemoryType::gaudi),
                         [](const auto& test) { return std::string(to_string(test.param)); });

/// The exporter's message to its peer; plain values.
struct Offer {
  ConnectionAddress connection;
  std::size_t key_bytes = 0;
  std::array<std::byte, 512> key{};
};

/// Makes a key, sends it, connects, and waits until it is told to end.
void exporter(const test::Line& line) {
  line.receive<bool>();
  const Nic nic = take(Nic::open("emu0"));
  const auto domain = take(take(hbmwire::Context::create()).open(MemoryType::host));
  const Region region = take(nic.register_memory(take(domain->allocate(100)), kBoth));
  const MemoryKey key = take(MemoryKey::pack(region));
  Connection connection = take(Connection::create(nic, {}));
  Offer offer{.connection = connection.local(), .key_bytes = key.bytes().size()};
  std::ranges::copy(key.bytes(), offer.key.begin());
  line.send(offer);
  must(connection.connect(line.receive<ConnectionAddress>()));
  line.send(true);
  line.receive<bool>();
}

RemoteKey key_of(const Offer& offer) {
  return take(RemoteKey::unpack(std::span(offer.key).first(offer.key_bytes)));
}

TEST(MemoryKey, AKeyFromBeforeAPeersRestartIsRefusedByName) {
  test::Child first(exporter);
  test::Child second(exporter);
  const Nic nic = take(Nic::open("emu1"));
  const auto host = take(take(hbmwire::Context::create()).open(MemoryType::host));
  const Buffer buffer = take(Buffer::create(host, nic, 100, Access::local_write));

  const auto meet = [&](const test::Child& peer, Connection& connection) {
    peer.line().send(true);
    const auto offer = peer.line().receive<Offer>();
    must(connection.connect(offer.connection));
    peer.line().send(connection.local());
    peer.line().receive<bool>();
    return key_of(offer);
  };
  const auto write = [&](Connection& connection, const RemoteMemory& to) {
    must(connection.post_write(1, {&buffer.region(), 0, 100}, to));
    return take(connection.wait(soon())).has_value();
  };

  Connection old_connection = take(Connection::create(nic, {}));
  const RemoteKey old_key = meet(first, old_connection);
  EXPECT_TRUE(write(old_connection, take(old_key.on(old_connection))));
  first.line().send(true);
  EXPECT_EQ(first.join(), 0);

  Connection new_connection = take(Connection::create(nic, {}));
  const RemoteKey new_key = meet(second, new_connection);
  const auto stale = old_key.on(new_connection);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Errc::peer_failed);
  EXPECT_EQ(stale.error().hint, Hint::memory_key_other_process) << describe(stale.error());
  EXPECT_TRUE(write(new_connection, take(new_key.on(new_connection))));
  second.line().send(true);
  EXPECT_EQ(second.join(), 0);
}

}  // namespace
}  // namespace hbmwire
