// SPDX-License-Identifier: MIT
#include <arpa/inet.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "hbmwire/memory_key.hpp"

#include "ends.hpp"
#include "in_child.hpp"
#include "internals.hpp"
#include "name_service.hpp"
#include "transport/rdma_cm/cm_id.hpp"  // a client that stays silent

/// Connects by the RDMA connection manager.
namespace hbmwire::test {
namespace {

/// Entry `index` of a NIC's GID table, as an address for a program. Entry 3 is an IPv4 address.
std::string gid_of(const std::string& nic, int index) {
  const char* const sysfs = std::getenv("SYSFS_PATH");
  std::string text;
  std::ifstream(std::string(sysfs == nullptr ? "/sys" : sysfs) + "/class/infiniband/" + nic +
                "/ports/1/gids/" + std::to_string(index)) >>
      text;
  in6_addr bytes{};
  EXPECT_EQ(::inet_pton(AF_INET6, text.c_str(), &bytes), 1) << text;
  char out[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) {
    ::inet_ntop(AF_INET, &bytes.s6_addr[12], out, sizeof out);
    return out;
  }
  ::inet_ntop(AF_INET6, &bytes, out, sizeof out);
  return "[" + std::string(out) + "]";
}

struct Managed {
  explicit Managed(ListenerOptions options = {}, std::vector<std::string> nics = {"emu0", "emu1"})
      : context(value(Context::create({.memory = {MemoryType::host}, .nics = std::move(nics)}))),
        listener(value(Listener::create(worker, by_cm(std::move(options))))) {}

  static ListenerOptions by_cm(ListenerOptions options) {
    options.rdma_cm = true;
    return options;
  }

  [[nodiscard]] std::string at(const std::string& host) const {
    return "rdma_cm://" + host + ":" + std::to_string(listener.port());
  }

  [[nodiscard]] Result<Endpoint> connect(const std::string& host,
                                         const EndpointOptions& options = {}) const {
    return Endpoint::connect(worker, at(host), within(10s), options);
  }

  void expect_works(Endpoint& from) const {
    Memory memory(context, MemoryType::host, 4096);
    memory.fill(1);
    const MemoryKey key = value(MemoryKey::pack(memory.region()));
    const RemoteRegion remote = value(from.remote(value(RemoteKey::unpack(key.bytes()))));
    good(value(from.put(memory.slice(0, 64), remote.slice(64, 64))).wait(10s));
    const auto contents = memory.contents();
    EXPECT_TRUE(std::equal(contents.begin(), contents.begin() + 64, contents.begin() + 64));
  }

  Context context;
  Worker worker = value(Worker::create(context));
  Listener listener;
};

TEST(RdmaCm, ConnectsByTheNicOfTheAddress) {
  Managed managed;
  for (const char* nic : {"emu0", "emu1"}) {
    Endpoint a = value(managed.connect(gid_of(nic, 3)));
    Endpoint b = value(managed.listener.accept(within(10s)));
    EXPECT_EQ(a.nic().info().name, nic);
    EXPECT_EQ(b.nic().info().name, nic);
    managed.expect_works(a);
    managed.expect_works(b);
  }
}

TEST(RdmaCm, ConnectsByLoopbackOfBothFamilies) {
  Managed managed;
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    Endpoint a = value(managed.connect(host));
    Endpoint b = value(managed.listener.accept(within(10s)));
    managed.expect_works(a);
  }
}

TEST(RdmaCm, ProvesKeysByTheControlLane) {
  Managed managed({.address = "", .endpoint = {.pre_shared_key = key_of(1)}});
  const std::string host = gid_of("emu0", 3);
  for (const auto& wrong : {key_of(2), std::vector<std::byte>{}}) {
    const auto none = managed.connect(host, {.pre_shared_key = wrong});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::permission_denied) << describe(none.error());
    EXPECT_FALSE(managed.listener.try_accept());
  }
  Endpoint a = value(managed.connect(host, {.pre_shared_key = key_of(1)}));
  Endpoint b = value(managed.listener.accept(within(10s)));
  managed.expect_works(b);
}

TEST(RdmaCm, LargeTransfersUseOneNic) {
  constexpr std::uint64_t kLarge = 4ULL << 20U;
  Managed managed;
  Endpoint a = value(managed.connect(gid_of("emu0", 3)));
  const Endpoint b = value(managed.listener.accept(within(10s)));
  const Memory memory(managed.context, MemoryType::host, 2 * kLarge);
  ASSERT_EQ(memory.region().nics().size(), 2U);
  const MemoryKey key = value(MemoryKey::pack(memory.region()));
  const RemoteRegion remote = value(a.remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer put = value(a.put(memory.slice(0, kLarge), remote.slice(kLarge, kLarge)));
  good(put.wait(within(10s)));
  EXPECT_TRUE(put.explain().rails.empty());
  EXPECT_EQ(put.explain().nic, "emu0");
}

TEST(RdmaCm, AnAddressWithoutAListenerRefuses) {
  Managed managed;
  const auto none =
      Endpoint::connect(managed.worker, "rdma_cm://" + gid_of("emu0", 3) + ":1", within(10s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::connection_refused) << describe(none.error());
}

TEST(RdmaCm, TakesTheFirstAddressOfANameThatAnswers) {
  // The name's addresses: one of no NIC, one without a listener, and the right one.
  Managed managed({.address = gid_of("emu1", 3)});
  set_addresses({"192.0.2.1", gid_of("emu0", 3), gid_of("emu1", 3)});
  Endpoint a = value(managed.connect(kSeveralAddresses));
  Endpoint b = value(managed.listener.accept(within(10s)));
  EXPECT_EQ(a.nic().info().name, "emu1");
  managed.expect_works(a);
  managed.expect_works(b);
  // A refusal says more than an address that does not exist, in whichever order they come.
  for (const auto& addresses : {std::vector<std::string>{"192.0.2.1", gid_of("emu0", 3)},
                                std::vector<std::string>{gid_of("emu0", 3), "192.0.2.1"}}) {
    set_addresses(addresses);
    const auto none = managed.connect(kSeveralAddresses);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().hint, Hint::connection_refused) << describe(none.error());
  }
}

TEST(RdmaCm, LeavesAnAddressThatStaysSilentForTheNextOne) {
  // The listener's worker makes no progress, so it never answers.
  const Managed silent({.address = gid_of("emu0", 3)});
  Managed managed({.address = gid_of("emu1", 3), .port = silent.listener.port()});
  set_addresses({gid_of("emu0", 3), gid_of("emu1", 3)});
  Endpoint a = value(Endpoint::connect(managed.worker, managed.at(kSeveralAddresses), within(3s)));
  Endpoint b = value(managed.listener.accept(within(10s)));
  EXPECT_EQ(a.nic().info().name, "emu1");
  managed.expect_works(a);
}

/// A client that connects by the manager, and then sends nothing.
class SilentClient {
 public:
  explicit SilentClient(const Managed& managed)
      : id_(value(transport::CmId::create("a listener"))) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(managed.listener.port());
    EXPECT_EQ(::inet_pton(AF_INET, gid_of("emu0", 3).c_str(), &to.sin_addr), 1);
    good(id_.resolve_address(reinterpret_cast<const sockaddr&>(to)));
    EXPECT_EQ(next(), RDMA_CM_EVENT_ADDR_RESOLVED);
    good(id_.resolve_route());
    EXPECT_EQ(next(), RDMA_CM_EVENT_ROUTE_RESOLVED);
    good(id_.connect(1));
  }

  /// The listener's answer. Empty if there is none yet.
  std::optional<rdma_cm_event_type> answer() {
    const auto event = id_.next();
    return event ? std::optional(event->type) : std::nullopt;
  }

 private:
  rdma_cm_event_type next() {
    const Deadline deadline = Deadline::after(10s);
    while (!deadline.passed()) {
      if (const auto event = id_.next()) return event->type;
    }
    return RDMA_CM_EVENT_ADDR_ERROR;
  }

  transport::CmId id_;
};

TEST(RdmaCm, SilentClientsDelayNoOther) {
  Managed managed({.address = "", .handshake_timeout = 5s, .max_handshakes = 4});
  std::vector<SilentClient> silent;
  // More than the listener handles at a time, so it drops the oldest ones.
  for (int i = 0; i < 6; ++i) {
    silent.emplace_back(managed);
    const Deadline deadline = Deadline::after(10s);
    while (silent.back().answer() != RDMA_CM_EVENT_CONNECT_RESPONSE && !deadline.passed())
      managed.worker.progress();
    EXPECT_FALSE(deadline.passed()) << i;
  }
  const auto before = std::chrono::steady_clock::now();
  Endpoint a = value(managed.connect(gid_of("emu0", 3)));
  Endpoint b = value(managed.listener.accept(within(10s)));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s) << "connect() waited for silent clients";
  managed.expect_works(a);
}

/// Each silent client is dropped, and its place, queue pairs and memory are released.
TEST(RdmaCm, SilentClientsAreDroppedInTime) {
  Managed managed({.address = "", .handshake_timeout = 300ms});
  std::vector<SilentClient> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(managed);
  const auto handshakes = [&] { return internals::look_at(managed.worker).handshakes; };
  const auto drive_until = [&](const auto& over) {
    const Deadline deadline = Deadline::after(10s);
    while (!over() && !deadline.passed()) static_cast<void>(managed.worker.wait(within(10ms)));
    return over();
  };
  EXPECT_TRUE(drive_until([&] { return handshakes() == 3; }));
  EXPECT_TRUE(drive_until([&] { return handshakes() == 0; })) << handshakes() << " are left";
}

TEST(RdmaCm, AnAddressOfNoNicIsReported) {
  Managed managed;
  const auto none = Endpoint::connect(managed.worker, "rdma_cm://192.0.2.1:7", within(10s));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().stage, Stage::connect);
  EXPECT_EQ(none.error().hint, Hint::rdma_cm) << describe(none.error());
}

TEST(RdmaCm, AnotherNicThanTheWorkersIsReported) {
  Managed managed({}, {"emu0"});
  const auto none = managed.connect(gid_of("emu1", 3));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, Hint::rdma_cm) << describe(none.error());
}

TEST(RdmaCm, AChildThatDropsItsCopiesTakesNothingFromItsParent) {
  std::optional<Managed> managed(std::in_place);
  std::optional<Endpoint> a = value(managed->connect(gid_of("emu0", 3)));
  std::optional<Endpoint> b = value(managed->listener.accept(within(10s)));
  EXPECT_TRUE(passes_in_child([&] {
    a.reset();
    b.reset();
    managed.reset();
  }));
  managed->expect_works(*a);
  managed->expect_works(*b);
  // The parent's listener continues, and so does the detection of the peer's end.
  Endpoint again = value(managed->connect(gid_of("emu0", 3)));
  managed->expect_works(again);
  b.reset();
  const Deadline deadline = Deadline::after(10s);
  while (a->phase() == EndpointPhase::ready && !deadline.passed()) managed->worker.progress();
  EXPECT_EQ(a->phase(), EndpointPhase::closed);
}

TEST(RdmaCm, APeersEndIsNoticed) {
  Managed managed;
  std::optional<Endpoint> a = value(managed.connect(gid_of("emu0", 3)));
  Endpoint b = value(managed.listener.accept(within(10s)));
  a.reset();
  const Deadline deadline = Deadline::after(10s);
  while (b.phase() == EndpointPhase::ready && !deadline.passed())
    static_cast<void>(managed.worker.wait(within(10ms)));
  EXPECT_NE(b.phase(), EndpointPhase::ready);
}

}  // namespace
}  // namespace hbmwire::test
