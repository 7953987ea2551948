// SPDX-License-Identifier: MIT
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "heard.hpp"
#include "tests/support/change_link.hpp"

/// The NIC with an endpoint's first lanes, and endpoints that connect while its port is down.
namespace hbmwire::test {
namespace {

constexpr std::uint64_t kBytes = (4U << 20U) + 4321;
constexpr EndpointOptions kOptions{.peer_timeout = 600ms};

/// Controls the links of ports; the destructor brings all of them up.
class Links {
 public:
  Links() = default;
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  ~Links() {
    for (const std::string& nic : down_) set(nic, "up");
  }

  void cut(const std::string& nic) {
    down_.push_back(nic);
    set(nic, "down");
  }

  void mend() {
    for (const std::string& nic : down_) set(nic, "up");
    down_.clear();
  }

 private:
  static void set(const std::string& nic, const char* how) {
    EXPECT_TRUE(change_link(nic + "=" + how)) << nic << " " << how;
  }

  std::vector<std::string> down_;
};

Context on(std::vector<std::string> nics) {
  return value(Context::create({.memory = {}, .nics = std::move(nics)}));
}

/// Two ends of one process, each with its own NICs, which a test connects.
struct Pair {
  Pair(const Context& a_context, const Context& b_context)
      : a_worker(value(Worker::create(a_context))),
        b_worker(value(Worker::create(b_context))),
        listener(value(
            Listener::create(b_worker, {.address = "127.0.0.1", .port = 0, .endpoint = kOptions}))),
        here(a_context, MemoryType::host, kBytes),
        there(b_context, MemoryType::host, kBytes),
        key(value(MemoryKey::pack(there.region()))) {}

  explicit Pair(const Context& context) : Pair(context, context) {}

  void connect() {
    meet([&] {
      a.emplace(value(Endpoint::connect(a_worker, "127.0.0.1:" + std::to_string(listener.port()),
                                        within(20s), kOptions)));
    });
  }

  void reconnect() {
    meet([&] { good(a->reconnect(within(20s))); });
  }

  /// Sends a message and its answer, an atomic, a list, and large puts and gets. Expects that
  /// `nics` of A carry them.
  void expect_by(const std::vector<std::string>& nics) {
    const RemoteRegion remote = value(a->remote(value(RemoteKey::unpack(key.bytes()))));
    here.fill(1);
    there.fill(2);
    Transfer receive = value(b->receive(there.slice(0, 64)));
    Transfer send = value(a->send(here.slice(0, 64)));
    finish(send);
    finish(receive);
    Transfer add = value(a->fetch_add(remote.slice(64, 8), 1));
    finish(add);
    const TransferPart parts[] = {{here.slice(0, 64), remote.slice(128, 64)},
                                  {here.slice(64, 64), remote.slice(256, 64)}};
    PreparedTransfer list = value(a->prepare_put(parts));
    Transfer listed = value(list.post());
    finish(listed);
    const auto by = [](const Transfer& transfer) {
      std::vector<std::string> names;
      const TransferReport report = transfer.explain();
      for (const RailReport& rail : report.rails) {
        EXPECT_NE(rail.bytes, 0U) << rail.nic;
        names.push_back(rail.nic);
      }
      if (names.empty()) names.push_back(report.nic);
      return names;
    };
    Transfer put = value(a->put(here.all(), remote.slice(0, kBytes)));
    finish(put);
    EXPECT_EQ(by(put), nics);
    EXPECT_TRUE(same_bytes(there.contents(), pattern(kBytes, 1)));
    there.fill(3);
    Transfer get = value(a->get(here.all(), remote.slice(0, kBytes)));
    finish(get);
    EXPECT_EQ(by(get), nics);
    EXPECT_TRUE(same_bytes(here.contents(), pattern(kBytes, 3)));
  }

  void finish(Transfer& transfer) {
    drive([&] { return transfer.done(); });
    good(transfer.wait(within(1s)));
  }

  template <class Over>
  void drive(const Over& over) {
    const Deadline deadline = Deadline::after(10s);
    while (!over()) {
      a_worker.progress();
      b_worker.progress();
      ASSERT_FALSE(deadline.passed()) << "not over in time";
    }
  }

  Worker a_worker;
  Worker b_worker;
  Listener listener;
  Memory here;
  Memory there;
  MemoryKey key;
  std::optional<Endpoint> a;
  std::optional<Endpoint> b;

 private:
  /// Calls `connects` while another thread accepts `b`.
  template <class Connects>
  void meet(const Connects& connects) {
    std::optional<Endpoint> fresh;
    std::thread accepting([&] { fresh.emplace(value(listener.accept(within(20s)))); });
    connects();
    accepting.join();
    b = std::move(fresh);
  }
};

const std::string& name_of(const Endpoint& endpoint) { return endpoint.nic().info().name; }

TEST(FirstNic, AReconnectAvoidsAFailedNic) {
  Heard heard;
  Links links;
  Pair ends(on({"emu0", "emu1"}));
  ends.connect();
  ends.expect_by({"emu0", "emu1"});
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(ends.key.bytes()))));
  links.cut("emu0");
  Transfer put = value(ends.a->put(ends.here.all(), remote.slice(0, kBytes)));
  ends.drive([&] { return put.done(); });
  EXPECT_FALSE(put.poll());
  ends.drive([&] {
    return ends.a->phase() == EndpointPhase::failed && ends.b->phase() == EndpointPhase::failed;
  });
  ends.reconnect();
  EXPECT_EQ(name_of(*ends.a), "emu1");
  EXPECT_EQ(name_of(*ends.b), "emu1");
  ends.expect_by({"emu1"});
  constexpr const char* kSaid = "new endpoints do without NIC emu0, whose port is down";
  EXPECT_EQ(heard.count(kSaid), 2U) << "each of the two workers logs it once";
  ends.connect();
  ends.expect_by({"emu1"});
  EXPECT_EQ(heard.count(kSaid), 2U) << "a second endpoint logs nothing";
  links.mend();
  ends.connect();
  ends.expect_by({"emu0", "emu1"});
  links.cut("emu0");
  ends.connect();
  EXPECT_EQ(heard.count(kSaid), 4U) << "emu0 was up in between, so it is logged again";
}

TEST(FirstNic, WithoutAListTheFirstUsableNicIsTaken) {
  Links links;
  EXPECT_EQ(value(on({}).open_nics()).front().info().name, "emu0");
  links.cut("emu0");
  links.cut("emu1");
  const auto nics = value(on({}).open_nics());
  ASSERT_EQ(nics.size(), 1U) << "without a list, one NIC is opened";
  EXPECT_EQ(nics.front().info().name, "emu2");
}

TEST(FirstNic, ARegionOfAnotherNicIsRefusedAndHarmsNothing) {
  Pair ends(on({"emu0"}));
  ends.connect();
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(ends.key.bytes()))));
  const Nic other = value(Nic::open("emu1"));
  const Region region = value(other.register_memory(ends.here.region().allocation(), kAll));
  const TransferPart part{region.slice(0, 8), remote.slice(0, 8)};
  const auto expect_refused = [&](const auto& refused) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::invalid_argument) << describe(refused.error());
    EXPECT_EQ(ends.a->phase(), EndpointPhase::ready);
  };
  expect_refused(ends.a->put(part.local, part.remote));
  expect_refused(ends.a->get(part.local, part.remote));
  expect_refused(ends.a->send(part.local));
  expect_refused(ends.a->receive(part.local));
  expect_refused(ends.a->prepare_put({&part, 1}));
  expect_refused(ends.a->prepare_get({&part, 1}));
  ends.expect_by({"emu0"});
}

TEST(FirstNic, AnInvitationUsesANicWithAPortThatIsUp) {
  Links links;
  const Context context = on({"emu0", "emu1"});
  Worker a_worker = value(Worker::create(context));
  Worker b_worker = value(Worker::create(context));
  links.cut("emu0");
  const auto [a, b] = invite(a_worker, b_worker);
  EXPECT_EQ(name_of(a), "emu1");
  EXPECT_EQ(name_of(b), "emu1");
}

TEST(FirstNic, AnInvitationLooksOnlyAtPortsOfItsOwnEnd) {
  Links links;
  Worker a_worker = value(Worker::create(on({"emu3", "emu1"})));
  Worker b_worker = value(Worker::create(on({"emu0", "emu2"})));
  for (const bool of_a : {true, false}) {
    links.cut(of_a ? "emu3" : "emu0");
    const auto [a, b] = invite(a_worker, b_worker);
    EXPECT_EQ(name_of(a), of_a ? "emu1" : "emu3");
    EXPECT_EQ(name_of(b), of_a ? "emu0" : "emu2");
    links.mend();
  }
}

/// Two nodes may have a separate network for each NIC.
TEST(FirstNic, TheAnsweringEndUsesTheNicOfTheAskingEnd) {
  Links links;
  Pair ends(on({"emu3", "emu1"}), on({"emu0", "emu1"}));
  links.cut("emu3");
  ends.connect();
  EXPECT_EQ(name_of(*ends.a), "emu1");
  EXPECT_EQ(name_of(*ends.b), "emu1");
  ends.expect_by({"emu1"});
}

TEST(FirstNic, APortThatIsDownAtThePeerIsReachedFromAnotherNic) {
  Links links;
  Pair ends(on({"emu0", "emu1"}), on({"emu3", "emu1", "emu2"}));
  links.cut("emu3");
  ends.connect();
  EXPECT_EQ(name_of(*ends.b), "emu2") << "its emu1 goes with the other end's emu1";
  ends.expect_by({"emu0", "emu1"});
}

TEST(FurtherNics, TheAnsweringEndUsesTheNicsOfTheAskingEnd) {
  Links links;
  Pair ends(on({"emu0", "emu3", "emu2"}), on({"emu0", "emu1", "emu2"}));
  links.cut("emu3");
  ends.connect();
  ends.expect_by({"emu0", "emu2"});
  const MemoryKey key = value(MemoryKey::pack(ends.here.region()));
  const RemoteRegion remote = value(ends.b->remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer put = value(ends.b->put(ends.there.all(), remote.slice(0, kBytes)));
  ends.finish(put);
  const TransferReport report = put.explain();
  ASSERT_EQ(report.rails.size(), 2U);
  EXPECT_EQ(report.rails[1].nic, "emu2");
}

/// Without any NIC that is up, connecting fails as with one NIC: in time, and with the reason.
TEST(FirstNic, WithoutANicThatIsUpTheFirstOneIsTried) {
  Links links;
  Pair ends(on({"emu0", "emu1"}));
  links.cut("emu0");
  links.cut("emu1");
  ends.connect();
  EXPECT_EQ(name_of(*ends.a), "emu0");
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(ends.key.bytes()))));
  Transfer put = value(ends.a->put(ends.here.slice(0, 8), remote.slice(0, 8)));
  ends.drive([&] { return put.done(); });
  EXPECT_FALSE(put.poll());
}

}  // namespace
}  // namespace hbmwire::test
