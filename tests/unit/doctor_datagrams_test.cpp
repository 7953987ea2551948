// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "tools/doctor/remote/datagrams.hpp"
#include "tools/doctor/remote/size_search.hpp"

namespace hbmwire::tools::doctor {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr Nonce kNonce{0xA5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Sends to an echo through a connected socket, and receives its answers.
class Peer {
 public:
  explicit Peer(const DatagramEcho& echo, const std::string& host = "127.0.0.1") {
    const auto address = ip_address(host, echo.port()).value();
    fd_ = Fd{::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    connected_ = ::connect(fd_.get(), address.get(), address.length) == 0;
  }

  [[nodiscard]] bool is_connected() const { return connected_; }

  void send(std::size_t size, const Nonce& nonce = kNonce, std::uint32_t number = 7) {
    const auto header = encode_header({.nonce = nonce, .number = number});
    std::vector<std::uint8_t> bytes(header.begin(), header.end());
    bytes.resize(size);
    ASSERT_EQ(::send(fd_.get(), bytes.data(), size, 0), static_cast<ssize_t>(size));
  }

  std::optional<ProbeAnswer> receive() {
    std::array<std::uint8_t, 100> bytes{};
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return std::nullopt;
    return decode_answer(std::span(bytes).first(static_cast<std::size_t>(got)));
  }

 private:
  Fd fd_;
  bool connected_ = false;
};

/// Runs an echo in a thread.
class Served {
 public:
  explicit Served(DatagramEcho& echo)
      : end_(::eventfd(0, EFD_CLOEXEC)), thread_([&] { serve(echo); }) {}

  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  ~Served() {
    ::eventfd_write(end_.get(), 1);
    thread_.join();
  }

 private:
  void serve(DatagramEcho& echo) const {
    const auto fds = echo.fds();
    while (true) {
      std::array<pollfd, 3> polled{{{.fd = end_.get(), .events = POLLIN, .revents = 0},
                                    {.fd = fds[0], .events = POLLIN, .revents = 0},
                                    {.fd = fds[1], .events = POLLIN, .revents = 0}}};
      if (::poll(polled.data(), polled.size(), -1) < 0 || polled[0].revents != 0) return;
      echo.answer();
    }
  }

  Fd end_;
  std::thread thread_;
};

/// A way between interfaces with the MTUs `here` and `there`, by which packets of `arrived` bytes
/// are the longest that arrive.
DatagramWay way_with(std::uint32_t here, std::uint32_t arrived, std::uint32_t there) {
  DatagramWay way;
  way.address = ip_address("192.0.2.1", 7700).value();
  way.interface = {.name = "eth0", .mtu_bytes = here};
  way.asked_bytes = std::min(here, kLargestPacket);
  way.arrived_bytes = arrived;
  way.far_mtu_bytes = there;
  return way;
}

Finding mtu_finding_of(const DatagramWay& way) {
  const auto findings = findings_of(way);
  EXPECT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings.back().check, "way-mtu");
  return findings.back();
}

/// The result of a search if packets of at most `limit` bytes arrive, and the number of rounds.
std::uint32_t searched(std::uint32_t smallest, std::uint32_t largest, std::uint32_t limit,
                       unsigned& rounds) {
  SizeSearch search(smallest, largest);
  for (rounds = 0; !search.round().empty() && rounds < 1000; ++rounds) {
    for (const std::uint32_t size : search.round()) {
      if (size <= limit) search.arrived(size);
    }
    search.end_round();
  }
  return search.arrived_bytes();
}

TEST(DoctorSizeSearch, FindsEveryLimitInFewRounds) {
  for (std::uint32_t limit = 56; limit <= 9000; ++limit) {
    unsigned rounds = 0;
    ASSERT_EQ(searched(56, 9000, limit, rounds), limit);
    ASSERT_LE(rounds, 10U) << limit;
  }
}

TEST(DoctorSizeSearch, FindsAUsualLimitAtOnce) {
  for (const std::uint32_t limit : {1280U, 1500U, 4200U, 9000U}) {
    unsigned rounds = 0;
    EXPECT_EQ(searched(56, 9000, limit, rounds), limit);
    EXPECT_LE(rounds, 4U);
  }
}

TEST(DoctorSizeSearch, EndsWhereNothingArrives) {
  unsigned rounds = 0;
  // The limit of 10 is below the smallest size, 56.
  EXPECT_EQ(searched(56, 9000, 10, rounds), 0U);
  EXPECT_EQ(rounds, 1U);
  EXPECT_EQ(searched(56, 56, 100, rounds), 56U);
  EXPECT_EQ(rounds, 1U);
}

TEST(DoctorSizeSearch, TakesASizeThatArrivesLate) {
  SizeSearch search(56, 1500);
  search.arrived(56);
  search.end_round();
  EXPECT_THAT(search.round(), ElementsAre(1500U));
  search.end_round();
  search.arrived(1500);
  search.arrived(100000);  // a size that was never sent
  search.end_round();
  EXPECT_TRUE(search.round().empty());
  EXPECT_EQ(search.arrived_bytes(), 1500U);
}

TEST(DoctorDatagramEcho, AnswersADatagramWithItsNonce) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo) << describe(echo.error());
  for (const char* host : {"127.0.0.1", "127.0.0.9", "::1"}) {
    Peer peer(*echo, host);
    if (!peer.is_connected()) continue;  // this machine has no IPv6
    for (const std::size_t size : {kSmallestProbe, std::size_t{1472}, std::size_t{65000}}) {
      peer.send(size);
      EXPECT_EQ(echo->answer(), 1U);
      const auto answer = peer.receive();
      ASSERT_TRUE(answer) << host;
      EXPECT_EQ(answer->header, (ProbeHeader{.nonce = kNonce, .number = 7}));
      EXPECT_EQ(answer->received_bytes, size);
      EXPECT_GE(answer->mtu_bytes, 1280U);
    }
  }
}

TEST(DoctorDatagramEcho, IgnoresForeignDatagrams) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo) << describe(echo.error());
  Peer peer(*echo);
  Nonce other = kNonce;
  other[15] ^= 1;
  peer.send(100, other);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, ProbeHeader::kBytes, kSmallestProbe - 1})
    peer.send(size);
  EXPECT_EQ(echo->answer(), 0U);
  EXPECT_FALSE(peer.receive());
  peer.send(100);
  EXPECT_EQ(echo->answer(), 1U);
}

TEST(DoctorDatagramEcho, NeverAnswersMoreThanItGot) {
  EXPECT_GE(kSmallestProbe, ProbeAnswer::kBytes);
  EXPECT_FALSE(decode_answer(std::array<std::uint8_t, ProbeAnswer::kBytes - 1>{}));
  EXPECT_FALSE(decode_answer(std::array<std::uint8_t, ProbeAnswer::kBytes + 1>{}));
  EXPECT_FALSE(decode_header(std::array<std::uint8_t, ProbeHeader::kBytes - 1>{}));
}

TEST(DoctorDatagramEcho, DropsAFlood) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo) << describe(echo.error());
  Peer peer(*echo);
  const auto began = Deadline::Clock::now();
  std::uint32_t answered = 0;
  for (unsigned i = 0; i < 2 * DatagramEcho::kMostInASecond; ++i) {
    peer.send(kSmallestProbe);
    answered += echo->answer();
    while (peer.receive()) {
    }
  }
  if (Deadline::Clock::now() - began >= 1s) GTEST_SKIP() << "too slow a machine for a flood";
  EXPECT_EQ(answered, DatagramEcho::kMostInASecond);
}

TEST(DoctorDatagramEcho, SaysThatItsPortIsInUse) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo);
  const auto other = DatagramEcho::create(echo->port(), kNonce);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().hint, Hint::port_in_use);
}

TEST(DoctorDatagrams, ArriveOnTheLoopbackDevice) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo) << describe(echo.error());
  const Served served(*echo);
  std::vector<IpAddress> addresses{ip_address("127.0.0.1", 0).value()};
  if (echo->fds()[1] >= 0) addresses.push_back(ip_address("::1", 0).value());
  const auto ways = try_datagrams(addresses, echo->port(), kNonce, 10s);
  ASSERT_TRUE(ways) << ways.error().text;
  ASSERT_THAT(*ways, SizeIs(addresses.size()));
  for (const DatagramWay& way : *ways) {
    EXPECT_EQ(way.interface.name, "lo");
    EXPECT_EQ(way.asked_bytes, kLargestPacket);
    EXPECT_EQ(way.arrived_bytes, kLargestPacket);
    EXPECT_TRUE(way.exact);
    for (const Finding& finding : findings_of(way)) EXPECT_EQ(finding.verdict, Verdict::good);
  }
}

TEST(DoctorDatagrams, AreLostWithAnotherNonce) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo);
  const Served served(*echo);
  const auto ways = try_datagrams({ip_address("127.0.0.1", 0).value()}, echo->port(), Nonce{}, 10s);
  ASSERT_TRUE(ways);
  EXPECT_FALSE(ways->at(0).works());
  const auto findings = findings_of(ways->at(0));
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, "way-udp");
  EXPECT_EQ(findings[0].verdict, Verdict::unknown);
}

TEST(DoctorDatagrams, AreRejectedWhereNoEchoRuns) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo);
  const std::uint16_t port = echo->port();
  echo = DatagramEcho::create(0, kNonce);  // the first one is destroyed, and its port free
  const auto ways = try_datagrams({ip_address("127.0.0.1", 0).value()}, port, kNonce, 10s);
  ASSERT_TRUE(ways);
  EXPECT_THAT(findings_of(ways->at(0)).at(0).found, HasSubstr("that machine rejects UDP port"));
}

TEST(DoctorDatagrams, EndWhenTheyAreInterrupted) {
  auto echo = DatagramEcho::create(0, kNonce);
  ASSERT_TRUE(echo);
  const Fd cancelled{::eventfd(1, EFD_CLOEXEC)};
  const auto ways = try_datagrams({ip_address("127.0.0.1", 0).value()}, echo->port(), kNonce,
                                  Wait(10s, cancelled.get()));
  ASSERT_FALSE(ways);
  EXPECT_TRUE(ways.error().interrupted);
}

TEST(DoctorDatagrams, FullSizeIsGood) {
  EXPECT_EQ(mtu_finding_of(way_with(1500, 1500, 1500)).verdict, Verdict::good);
  EXPECT_EQ(mtu_finding_of(way_with(9000, 9000, 9000)).verdict, Verdict::good);
  EXPECT_EQ(mtu_finding_of(way_with(65536, kLargestPacket, 65536)).verdict, Verdict::good);
  EXPECT_EQ(mtu_finding_of(way_with(1500, 1500, 0)).verdict, Verdict::good);
}

TEST(DoctorDatagrams, LosingDatagramsThatRoceNeedsIsBad) {
  const Finding finding = mtu_finding_of(way_with(9000, 1500, 9000));
  EXPECT_EQ(finding.verdict, Verdict::bad);
  EXPECT_THAT(finding.found, HasSubstr("packets of 1500 bytes arrive, and no larger ones"));
  EXPECT_THAT(finding.remedy, HasSubstr("ip link set dev eth0 mtu 1500"));
}

TEST(DoctorDatagrams, LosingDatagramsLargerThanRoceNeedsCostsSpeedOnly) {
  EXPECT_EQ(mtu_finding_of(way_with(9000, 4200, 9000)).verdict, Verdict::slow);
  EXPECT_EQ(mtu_finding_of(way_with(9000, 4191, 9000)).verdict, Verdict::bad);
  // An interface MTU of 1500 gives RoCE a path MTU of 1024, so the 1450 bytes of a tunnel
  // suffice.
  EXPECT_EQ(mtu_finding_of(way_with(1500, 1450, 1500)).verdict, Verdict::slow);
}

TEST(DoctorDatagrams, DifferingMtusOfTheEndsAreToldFromARoutersLimit) {
  const Finding smaller_there = mtu_finding_of(way_with(9000, 1500, 1500));
  EXPECT_EQ(smaller_there.verdict, Verdict::slow);
  EXPECT_THAT(smaller_there.remedy, HasSubstr("mtu 9000, on that machine"));
  const Finding smaller_here = mtu_finding_of(way_with(1500, 1500, 9000));
  EXPECT_EQ(smaller_here.verdict, Verdict::slow);
  EXPECT_THAT(smaller_here.remedy, HasSubstr("ip link set dev eth0 mtu 9000, here"));
}

TEST(DoctorDatagrams, NameTheRouterThatTakesLess) {
  DatagramWay way = way_with(9000, 1500, 9000);
  way.told =
      Unreachable{.cause = Unreachable::Cause::too_big, .by = "198.51.100.1", .mtu_bytes = 1500};
  EXPECT_THAT(mtu_finding_of(way).found, HasSubstr("router 198.51.100.1 says"));
  way.told.reset();
  way.exact = false;
  EXPECT_THAT(mtu_finding_of(way).found, HasSubstr("and those of 9000 do not"));
}

TEST(DoctorDatagrams, TheMtuLeftForRoceIsAPowerOfTwo) {
  EXPECT_EQ(roce_mtu_bytes(9000), 4096U);
  EXPECT_EQ(roce_mtu_bytes(4192), 4096U);
  EXPECT_EQ(roce_mtu_bytes(4191), 2048U);
  EXPECT_EQ(roce_mtu_bytes(1500), 1024U);
  EXPECT_EQ(roce_mtu_bytes(300), 0U);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
