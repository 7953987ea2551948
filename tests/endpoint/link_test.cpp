// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/memory_key.hpp"
#include "hbmwire/settings.hpp"

#include "ends.hpp"
#include "internals.hpp"
#include "transport/verbs/connection_state.hpp"  // the queue pair of a Connection
#include "verbs/link_options.hpp"                // a port of a smaller MTU
#include "verbs/queue_pair.hpp"                  // a queue pair of another partition

/// Quality of service and addressing in the resulting queue pairs. emu0 and emu1 have ports of
/// Ethernet, emu2 has one of InfiniBand with a single GID.
namespace hbmwire::test {
namespace {

using internals::QueuePairView;
using testing::HasSubstr;

/// Values that the library would not choose itself. They fit the default peer_timeout.
LinkOptions uncommon() {
  return {.service_level = 5,
          .traffic_class = 106,
          .pkey_index = 0,
          .mtu_bytes = 1024,
          .ack_timeout = 13,
          .retry_count = 4,
          .rnr_retry = 3};
}

ContextOptions on(std::vector<std::string> nics, std::optional<std::uint8_t> gid_index = {}) {
  return {.memory = {MemoryType::host}, .nics = std::move(nics), .gid_index = gid_index};
}

/// Sets environment variables for a test. Contexts read them when they are created.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, text] : values_) ::setenv(name.c_str(), text.c_str(), 1);
  }

  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

  ~Variables() {
    for (const auto& [name, text] : values_) ::unsetenv(name.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

std::map<std::string, std::string> uncommon_settings() {
  return {{"HBMWIRE_GID_INDEX", "1"},
          {"HBMWIRE_LINK_SERVICE_LEVEL", "5"},
          {"HBMWIRE_LINK_TRAFFIC_CLASS", "106"},
          {"HBMWIRE_LINK_PKEY_INDEX", "0"},
          {"HBMWIRE_LINK_MTU", "1024"},
          {"HBMWIRE_LINK_ACK_TIMEOUT", "13"},
          {"HBMWIRE_LINK_RETRY_COUNT", "4"},
          {"HBMWIRE_LINK_RNR_RETRY", "3"}};
}

// The number of retries by which a NIC retries without end.
constexpr unsigned kWithoutEnd = 7;

void expect_uncommon(const QueuePairView& view, unsigned rnr_retry) {
  EXPECT_EQ(view.service_level, 5U);
  EXPECT_EQ(view.traffic_class, 106U);
  EXPECT_EQ(view.gid_index, 1U);
  EXPECT_EQ(view.pkey_index, 0U);
  EXPECT_EQ(view.mtu_bytes, 1024U);
  EXPECT_EQ(view.ack_timeout, 13U);
  EXPECT_EQ(view.retry_count, 4U);
  EXPECT_EQ(view.rnr_retry, rnr_retry);
}

void expect_all_uncommon(const Worker& worker, std::size_t queue_pairs) {
  const auto views = internals::look_at_queue_pairs(worker);
  ASSERT_EQ(views.size(), queue_pairs);
  for (std::size_t i = 0; i < views.size(); ++i) {
    SCOPED_TRACE("queue pair " + std::to_string(i));
    constexpr std::size_t kControl = 1;
    expect_uncommon(views[i], i == kControl ? kWithoutEnd : 3);
  }
}

void expect_works(Ends& ends, std::uint64_t bytes) {
  Memory source(ends.context, MemoryType::host, bytes);
  Memory target(ends.context, MemoryType::host, bytes);
  source.fill(1);
  target.fill(2);
  const MemoryKey key = value(MemoryKey::pack(target.region()));
  const RemoteRegion remote = value(ends.a->remote(value(RemoteKey::unpack(key.bytes()))));
  Transfer put = value(ends.a->put(source.all(), remote.slice()));
  finish(ends, put);
  EXPECT_TRUE(same_bytes(target.contents(), source.contents()));
}

TEST(Link, OptionsReachBothLanesOfBothEnds) {
  Ends ends({.link = uncommon()}, {}, on({"emu0"}, 1));
  expect_all_uncommon(ends.a_worker, 2);
  expect_all_uncommon(ends.b_worker, 2);
  expect_works(ends, 65536);
}

TEST(Link, OptionsReachRails) {
  Ends ends({.link = uncommon()}, {}, on({"emu0", "emu1"}, 1));
  expect_all_uncommon(ends.a_worker, 3);
  expect_all_uncommon(ends.b_worker, 3);
  expect_works(ends, 4U << 20U);
}

TEST(Link, OptionsReachInvitations) {
  const Context context = value(Context::create(on({"emu0"}, 1)));
  const Worker worker = value(Worker::create(context));
  const EndpointOptions options{.link = uncommon()};
  auto a = value(EndpointInvitation::create(worker, options));
  auto b = value(EndpointInvitation::create(worker, options));
  good(b.start(a.bytes()));
  const Endpoint a_end = value(a.connect(b.bytes(), within(10s)));
  expect_all_uncommon(worker, 2);
}

TEST(Link, OptionsOutliveAReconnect) {
  Ends ends({.link = uncommon()}, {}, on({"emu0"}, 1));
  ends.b.reset();
  ends.drive([&] { return ends.a->phase() == EndpointPhase::closed; });
  beside(ends.b_worker, [&] { good(ends.a->reconnect(within(10s))); });
  expect_all_uncommon(ends.a_worker, 2);
}

TEST(Link, WithoutOptionsTheLibraryChooses) {
  const Ends ends({}, {}, on({"emu0"}));
  const NicInfo& nic = ends.a->nic().info();
  const auto views = internals::look_at_queue_pairs(ends.a_worker);
  ASSERT_EQ(views.size(), 2U);
  for (const QueuePairView& view : views) {
    EXPECT_EQ(view.service_level, 0U);
    EXPECT_EQ(view.traffic_class, 0U);
    EXPECT_EQ(view.gid_index, nic.gid_index);
    EXPECT_EQ(view.pkey_index, 0U);
    EXPECT_EQ(view.mtu_bytes, nic.mtu_bytes);
    EXPECT_EQ(view.ack_timeout, 14U);  // 67 ms; all 8 tries take at most half of peer_timeout (2 s)
    EXPECT_EQ(view.retry_count, 7U);
  }
  EXPECT_EQ(views[0].rnr_retry, 6U);
  EXPECT_EQ(views[1].rnr_retry, kWithoutEnd);
}

TEST(Link, SettingsApplyToOpenOptions) {
  const Variables variables(uncommon_settings());
  const Ends ends({}, {}, on({"emu0", "emu1"}));
  expect_all_uncommon(ends.a_worker, 3);
  expect_all_uncommon(ends.b_worker, 3);
}

TEST(Link, EachOptionOverrulesItsSetting) {
  const Variables variables({{"HBMWIRE_LINK_SERVICE_LEVEL", "1"},
                             {"HBMWIRE_LINK_TRAFFIC_CLASS", "4"},
                             {"HBMWIRE_GID_INDEX", "200"},
                             {"HBMWIRE_LINK_PKEY_INDEX", "200"},
                             {"HBMWIRE_LINK_MTU", "256"},
                             {"HBMWIRE_LINK_ACK_TIMEOUT", "30"},
                             {"HBMWIRE_LINK_RETRY_COUNT", "1"},
                             {"HBMWIRE_LINK_RNR_RETRY", "1"}});
  const Ends ends({.link = uncommon()}, {}, on({"emu0"}, 1));
  expect_all_uncommon(ends.a_worker, 2);
  expect_all_uncommon(ends.b_worker, 2);
}

/// Two ends with different options.
struct TwoKinds {
  TwoKinds(const LinkOptions& of_a, const LinkOptions& of_b)
      : a_worker(value(Worker::create(value(Context::create(on({"emu0"}, 3)))))),
        b_worker(value(Worker::create(value(Context::create(on({"emu0"}, 1)))))),
        listener(value(
            Listener::create(b_worker, {.address = "127.0.0.1", .endpoint = {.link = of_b}}))) {
    std::thread accepting([&] { b.emplace(value(listener.accept(within(20s)))); });
    a.emplace(value(Endpoint::connect(a_worker, "127.0.0.1:" + std::to_string(listener.port()),
                                      within(20s), {.link = of_a})));
    accepting.join();
  }

  Worker a_worker;
  Worker b_worker;
  Listener listener;
  std::optional<Endpoint> a;
  std::optional<Endpoint> b;
};

TEST(Link, EachEndSendsWithItsOwnOptionsAndTheSmallerMtuCounts) {
  const TwoKinds ends({.traffic_class = 104, .mtu_bytes = 2048, .retry_count = 5},
                      {.service_level = 2, .mtu_bytes = 512});
  for (const QueuePairView& view : internals::look_at_queue_pairs(ends.a_worker)) {
    EXPECT_EQ(view.service_level, 0U);
    EXPECT_EQ(view.traffic_class, 104U);
    EXPECT_EQ(view.gid_index, 3U);
    EXPECT_EQ(view.mtu_bytes, 512U);
    EXPECT_EQ(view.retry_count, 5U);
  }
  for (const QueuePairView& view : internals::look_at_queue_pairs(ends.b_worker)) {
    EXPECT_EQ(view.service_level, 2U);
    EXPECT_EQ(view.traffic_class, 0U);
    EXPECT_EQ(view.gid_index, 1U);
    EXPECT_EQ(view.mtu_bytes, 512U);
    EXPECT_EQ(view.retry_count, 7U);
  }
}

// --- refusals

/// Expects a refusal from each function that makes an endpoint, before a peer has connected.
void expect_refused(const Worker& worker, const EndpointOptions& options, Errc code, Stage stage,
                    const std::vector<std::string>& parts) {
  const auto check = [&](const Error& error) {
    const std::string sentence = describe(error);
    EXPECT_EQ(error.code, code) << sentence;
    EXPECT_EQ(error.stage, stage) << sentence;
    for (const std::string& part : parts) EXPECT_THAT(sentence, HasSubstr(part));
  };
  const auto connected = Endpoint::connect(worker, "127.0.0.1:1", within(10s), options);
  const auto listening = Listener::create(worker, {.address = "127.0.0.1", .endpoint = options});
  const auto invited = EndpointInvitation::create(worker, options);
  ASSERT_FALSE(connected || listening || invited);
  check(connected.error());
  check(listening.error());
  check(invited.error());
}

class LinkRefusal : public testing::Test {
 protected:
  /// Expects that no endpoint with these options can be made.
  void refused(const EndpointOptions& options, Errc code, Stage stage,
               const std::vector<std::string>& parts) const {
    expect_refused(worker, options, code, stage, parts);
  }

  /// Expects that an endpoint with these options can be made.
  void taken(const EndpointOptions& options) const {
    good(EndpointInvitation::create(worker, options).map([](const auto& /*made*/) {}));
  }

  Context context = value(Context::create(on({"emu0"})));
  Worker worker = value(Worker::create(context));
};

TEST_F(LinkRefusal, ValuesOutOfRangeAreRefused) {
  const std::pair<LinkOptions, std::vector<std::string>> cases[] = {
      {{.service_level = 16}, {"service_level 16", "0 to 15", "HBMWIRE_LINK_"}},
      {{.mtu_bytes = 1500}, {"mtu_bytes 1500", "256, 512, 1024, 2048 or 4096"}},
      {{.mtu_bytes = 0}, {"mtu_bytes 0"}},
      {{.ack_timeout = 32}, {"ack_timeout 32", "0 to 31"}},
      {{.retry_count = 8}, {"retry_count 8", "0 to 7"}},
      {{.rnr_retry = 8}, {"rnr_retry 8", "0 to 7"}}};
  for (const auto& [link, parts] : cases)
    refused({.link = link}, Errc::invalid_argument, Stage::configure, parts);
  const Nic nic = value(context.open_nics()).front();
  for (const auto& [link, parts] : cases) {
    const auto made = Connection::create(nic, {.link = link});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().stage, Stage::configure);
    EXPECT_THAT(describe(made.error()), HasSubstr(parts.front()));
  }
}

TEST_F(LinkRefusal, TriesTooLongForPeerTimeoutAreRefused) {
  refused({.link = {.ack_timeout = 20}}, Errc::invalid_argument, Stage::configure,
          {"8 x 4.29 s = 34.4 s, peer_timeout 2 s", "half of peer_timeout",
           "HBMWIRE_LINK_ACK_TIMEOUT", "HBMWIRE_LINK_RETRY_COUNT"});
  taken({.peer_timeout = 69s, .link = {.ack_timeout = 20}});
  refused({.link = {.ack_timeout = 18, .retry_count = 0}}, Errc::invalid_argument, Stage::configure,
          {"1 x 1.07 s = 1.07 s, peer_timeout 2 s"});
  taken({.link = {.ack_timeout = 17, .retry_count = 0}});
  refused({.link = {.ack_timeout = 0}}, Errc::invalid_argument, Stage::configure,
          {"ack_timeout 0, peer_timeout 2 s", "waits for ever"});
  taken({.peer_timeout = std::chrono::nanoseconds::max(), .link = {.ack_timeout = 0}});
  refused({.peer_timeout = 24h, .link = {.ack_timeout = 31}}, Errc::invalid_argument,
          Stage::configure, {"8 x 8796 s = 70369 s, peer_timeout 86400 s"});
  refused({.peer_timeout = 999'700us, .link = {.ack_timeout = 20}}, Errc::invalid_argument,
          Stage::configure, {"peer_timeout 1 s"});
}

TEST_F(LinkRefusal, SettingsAreRefusedLikeOptions) {
  const Variables variables(std::map<std::string, std::string>{{"HBMWIRE_LINK_ACK_TIMEOUT", "20"}});
  const Context other = value(Context::create(on({"emu0"})));
  const Worker its = value(Worker::create(other));
  expect_refused(its, {}, Errc::invalid_argument, Stage::configure,
                 {"8 x 4.29 s = 34.4 s, peer_timeout 2 s"});
  expect_refused(its, {.link = {.retry_count = 0}}, Errc::invalid_argument, Stage::configure,
                 {"1 x 4.29 s"});
  good(EndpointInvitation::create(its, {.link = {.ack_timeout = 14}}).map([](const auto& /*made*/) {
  }));
}

TEST_F(LinkRefusal, FewerRetriesNeedLongerTries) {
  const Ends ends({.link = {.retry_count = 0}}, {}, on({"emu0"}));
  const QueuePairView view = internals::look_at_queue_pairs(ends.a_worker).front();
  EXPECT_EQ(view.retry_count, 0U);
  EXPECT_EQ(view.ack_timeout, 17U);  // 0.54 s, at most 1 s
}

TEST_F(LinkRefusal, MissingTableEntriesAreRefused) {
  refused({.link = {.pkey_index = 1}}, Errc::not_found, Stage::connect,
          {"emu0 (pkey index 1, 1 pkeys)"});
  const Nic nic = value(context.open_nics()).front();
  const auto made = Connection::create(nic, {.link = {.pkey_index = 1}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::not_found) << describe(made.error());
}

/// Each emulated port has one key, so the NIC refuses any other index.
TEST_F(LinkRefusal, TheNicRefusesAPkeyIndex) {
  const Nic nic = value(context.open_nics()).front();
  const auto made = value(detail::ConnectionState::create(nic, {}));
  good(verbs::to_reset(*made->nic, made->qp.get()));
  const auto moved = verbs::to_init(*made->nic, made->qp.get(), Access::remote_read, 1);
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().number, EINVAL) << describe(moved.error());
  good(verbs::to_init(*made->nic, made->qp.get(), Access::remote_read, 0));
}

TEST_F(LinkRefusal, AMissingGidIsRefused) {
  const std::pair<ContextOptions, std::string> cases[] = {
      {on({"emu0"}, 200), "emu0 (GID index 200, "},
      {on({"emu0", "emu2"}, 3), "emu2 (GID index 3, 1 GIDs)"}};
  for (const auto& [options, part] : cases) {
    const auto opened = value(Context::create(options)).open_nics();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::not_found);
    EXPECT_EQ(opened.error().stage, Stage::open);
    EXPECT_THAT(describe(opened.error()), HasSubstr(part));
    EXPECT_THAT(describe(opened.error()), HasSubstr("`hbmwire info`"));
  }
}

TEST_F(LinkRefusal, AnMtuAboveThePortsIsRefused) {
  detail::NicState nic;
  nic.info.name = "mlx5_0";
  nic.info.mtu_bytes = 1024;
  EXPECT_EQ(value(verbs::port_entries(nic, {})).mtu_bytes, 1024U);
  EXPECT_EQ(value(verbs::port_entries(nic, {.mtu_bytes = 512})).mtu_bytes, 512U);
  const auto larger = verbs::port_entries(nic, {.mtu_bytes = 2048});
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Errc::not_supported);
  EXPECT_THAT(describe(larger.error()), HasSubstr("mlx5_0 (MTU 1024, mtu_bytes 2048)"));
}

TEST_F(LinkRefusal, ARefusalByAFurtherNicNamesIt) {
  const Context both = value(Context::create(on({"emu0", "emu2"})));
  state_of(value(both.open_nics()).back()).info.mtu_bytes = 1024;
  const Worker its = value(Worker::create(both));
  expect_refused(its, {.link = {.mtu_bytes = 2048}}, Errc::not_supported, Stage::connect,
                 {"emu2 (MTU 1024, mtu_bytes 2048)"});
}

// --- other ways to connect

TEST(Link, OptionsOfAConnectionAreInItsQueuePair) {
  const Context context = value(Context::create(on({"emu0"}, 1)));
  const Nic nic = value(context.open_nics()).front();
  const auto a = value(detail::ConnectionState::create(nic, {.link = uncommon()}));
  const auto b = value(detail::ConnectionState::create(nic, {}));
  good(a->connect(b->local));
  good(b->connect(a->local));
  ibv_qp_attr got{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(a->qp.get(), &got, IBV_QP_AV | IBV_QP_PATH_MTU, &made), 0);
  EXPECT_EQ(got.ah_attr.sl, 5U);
  EXPECT_EQ(got.ah_attr.grh.traffic_class, 106U);
  EXPECT_EQ(got.ah_attr.grh.sgid_index, 1U);
  EXPECT_EQ(got.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(got.timeout, 13U);
  EXPECT_EQ(got.retry_cnt, 4U);
  EXPECT_EQ(got.rnr_retry, 3U);
  ASSERT_EQ(ibv_query_qp(b->qp.get(), &got, IBV_QP_AV | IBV_QP_PATH_MTU, &made), 0);
  EXPECT_EQ(got.ah_attr.grh.traffic_class, 0U);
  EXPECT_EQ(got.path_mtu, IBV_MTU_1024);
}

/// Both ends use the RDMA connection manager, on emu0.
struct Managed {
  explicit Managed(const LinkOptions& of_listener, std::optional<std::uint8_t> gid_index = {})
      : context(value(Context::create(on({"emu0"}, gid_index)))),
        listener(
            value(Listener::create(worker, {.rdma_cm = true, .endpoint = {.link = of_listener}}))) {
  }

  [[nodiscard]] Result<Endpoint> connect(const LinkOptions& link) const {
    return Endpoint::connect(worker, "rdma_cm://127.0.0.1:" + std::to_string(listener.port()),
                             within(10s), {.link = link});
  }

  Context context;
  Worker worker = value(Worker::create(context));
  Listener listener;
};

TEST(Link, ByRdmaCmTrafficClassTimeoutAndRetriesCount) {
  Managed managed({.traffic_class = 8, .ack_timeout = 12});
  const LinkOptions link{.traffic_class = 104, .ack_timeout = 13, .retry_count = 4, .rnr_retry = 3};
  const Endpoint a = value(managed.connect(link));
  const Endpoint b = value(managed.listener.accept(within(10s)));
  std::vector<QueuePairView> ends[2];
  for (std::size_t nth = 0; nth < 2; ++nth) {
    const auto views = internals::look_at_queue_pairs(managed.worker, nth);
    // The worker has both ends. The one with traffic class 104 is the connecting end.
    ends[views[0].traffic_class == 104 ? 0 : 1] = views;
  }
  ASSERT_EQ(ends[0].size(), 2U);
  ASSERT_EQ(ends[1].size(), 2U);
  for (const QueuePairView& view : ends[0]) {
    EXPECT_EQ(view.traffic_class, 104U);
    EXPECT_EQ(view.ack_timeout, 13U);
    EXPECT_EQ(view.retry_count, 4U);
  }
  EXPECT_EQ(ends[0][0].rnr_retry, 3U);
  EXPECT_EQ(ends[0][1].rnr_retry, kWithoutEnd);
  for (const QueuePairView& view : ends[1]) {
    EXPECT_EQ(view.traffic_class, 8U);
    EXPECT_EQ(view.ack_timeout, 12U);
    EXPECT_EQ(view.retry_count, 7U);
  }
}

TEST(Link, ByRdmaCmTheRouteHasTheAskingEndsTrafficClass) {
  Managed managed({});
  const Endpoint a = value(managed.connect({.traffic_class = 104}));
  const Endpoint b = value(managed.listener.accept(within(10s)));
  for (std::size_t nth = 0; nth < 2; ++nth) {
    for (const QueuePairView& view : internals::look_at_queue_pairs(managed.worker, nth))
      EXPECT_EQ(view.traffic_class, 104U);
  }
}

TEST(Link, ByRdmaCmOptionsThatTheRouteDecidesAreRefused) {
  const Managed managed({});
  const std::pair<LinkOptions, std::string> cases[] = {{{.service_level = 1}, "service_level"},
                                                       {{.pkey_index = 0}, "pkey_index"},
                                                       {{.mtu_bytes = 1024}, "mtu_bytes"}};
  for (const auto& [link, which] : cases) {
    const auto connected = managed.connect(link);
    const auto listening =
        Listener::create(managed.worker, {.rdma_cm = true, .endpoint = {.link = link}});
    ASSERT_FALSE(connected || listening);
    for (const Error& error : {connected.error(), listening.error()}) {
      EXPECT_EQ(error.code, Errc::not_supported);
      EXPECT_EQ(error.stage, Stage::configure);
      EXPECT_THAT(describe(error),
                  HasSubstr(which + ": by rdma_cm the connection manager's route decides this"));
    }
  }
}

TEST(Link, ByRdmaCmTheGidIsThatOfTheAddress) {
  Managed managed({}, 1);
  const Endpoint a = value(managed.connect({}));
  const Endpoint b = value(managed.listener.accept(within(10s)));
  const auto views = internals::look_at_queue_pairs(managed.worker);
  EXPECT_NE(views[0].gid_index, 1U);
  EXPECT_EQ(views[0].gid_index, views[1].gid_index);
}

/// The types of service of the connections to a port, as the kernel reports them.
std::vector<int> types_of_service(std::uint16_t port) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    const bool there = ::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0;
    int type_of_service = 0;
    size = sizeof type_of_service;
    if (!there || at.sin_family != AF_INET || ntohs(at.sin_port) != port) continue;
    if (::getsockopt(fd, IPPROTO_IP, IP_TOS, &type_of_service, &size) == 0)
      found.push_back(type_of_service);
  }
  return found;
}

TEST(Link, OverTcpTheDscpAloneCounts) {
  Ends ends({.link = {.service_level = 5, .traffic_class = 107, .pkey_index = 200}}, {},
            on({"none"}, 200));
  constexpr int kDscp = 107 & ~3;  // the two low bits are ECN, which the kernel sets itself
  EXPECT_EQ(types_of_service(ends.listener.port()), std::vector{kDscp});
  expect_works(ends, 4096);
  const Ends plain({}, {}, on({"none"}));
  EXPECT_EQ(types_of_service(plain.listener.port()), std::vector{0});
}

TEST(Link, OverTcpOfIPv6TheDscpAloneCounts) {
  const Context context = value(Context::create(on({"none"})));
  const Worker worker = value(Worker::create(context));
  const EndpointOptions options{.link = {.traffic_class = 104}};
  Listener listener = value(Listener::create(worker, {.address = "::1", .endpoint = options}));
  const Endpoint a = value(
      Endpoint::connect(worker, "[::1]:" + std::to_string(listener.port()), within(10s), options));
  bool found = false;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in6 at{};
    socklen_t size = sizeof at;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) continue;
    if (at.sin6_family != AF_INET6 || ntohs(at.sin6_port) != listener.port()) continue;
    int traffic_class = 0;
    size = sizeof traffic_class;
    ASSERT_EQ(::getsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, &size), 0);
    EXPECT_EQ(traffic_class, 104);
    found = true;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace hbmwire::test
