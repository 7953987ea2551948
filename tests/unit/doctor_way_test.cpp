// SPDX-License-Identifier: MIT
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "hbmwire/fd.hpp"

#include "tools/doctor/remote/way.hpp"

namespace hbmwire::tools::doctor {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Reach = TcpAttempt::Reach;

TcpAttempt attempt_of(const std::string& host, Reach reach, int error = 0) {
  TcpAttempt attempt;
  attempt.address = ip_address(host, 7700).value();
  attempt.reach = reach;
  attempt.error = error;
  return attempt;
}

TcpWay name_of(std::vector<TcpAttempt> attempts) {
  TcpWay way;
  way.name = "node2";
  way.attempts = std::move(attempts);
  return way;
}

TcpAttempt told_by(const std::string& by, Unreachable::Cause cause) {
  TcpAttempt attempt = attempt_of("192.0.2.1", Reach::unreachable, EHOSTUNREACH);
  attempt.told = Unreachable{.cause = cause, .by = by, .mtu_bytes = 0};
  return attempt;
}

/// A listener on a free port of the loopback device; none if this machine lacks the family.
Fd loopback_listener(int family, std::uint16_t& port) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const auto host = ip_address(family == AF_INET ? "127.0.0.1" : "::1", 0).value();
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  auto* address = reinterpret_cast<sockaddr*>(&bound);
  if (!fd || ::bind(fd.get(), host.get(), host.length) != 0 || ::listen(fd.get(), 8) != 0)
    return {};
  if (::getsockname(fd.get(), address, &length) != 0) return {};
  port = ip_address_of(address, length).port;
  return fd;
}

TEST(DoctorWay, ReadsAddressesOfAPeer) {
  const std::array<std::string, 9> texts{"192.0.2.1:7700",
                                         "[fd00::1]:7700",
                                         "192.0.2.1:7700",
                                         "node2:7700",
                                         "192.0.2.1",
                                         "",
                                         "\x1b[2J:1",
                                         std::string(4096, ':'),
                                         "[fe80::1%nosuchinterface]:7700"};
  const auto addresses = ip_addresses(texts);
  ASSERT_THAT(addresses, SizeIs(2));
  EXPECT_EQ(addresses[0].text(), "192.0.2.1:7700");
  EXPECT_EQ(addresses[1].text(), "[fd00::1]:7700");
  EXPECT_TRUE(addresses[1].is_ipv6());
}

TEST(DoctorWay, LimitsTheNumberOfAddresses) {
  std::vector<std::string> texts;
  for (int i = 1; i <= 40; ++i) texts.push_back("192.0.2." + std::to_string(i) + ":1");
  EXPECT_THAT(ip_addresses(texts), SizeIs(kMostAddresses));
}

TEST(DoctorWay, IsGoodWhereAnAddressIsReached) {
  const auto findings = findings_of(name_of({attempt_of("192.0.2.1", Reach::reached)}));
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, "way");
  EXPECT_EQ(findings[0].subject, "192.0.2.1:7700");
  EXPECT_EQ(findings[0].verdict, Verdict::good);
  EXPECT_THAT(findings[0].remedy, IsEmpty());
}

TEST(DoctorWay, IsSlowWhereAnotherAddressOfTheNameIsReached) {
  TcpAttempt no_route = attempt_of("fd00::1", Reach::unreachable, ENETUNREACH);
  no_route.local = true;
  const auto way = name_of({no_route, attempt_of("192.0.2.1", Reach::reached)});
  const auto findings = findings_of(way);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].verdict, Verdict::slow);
  EXPECT_THAT(findings[0].found, HasSubstr("no IPv6 route"));
  EXPECT_THAT(findings[0].remedy, HasSubstr("or name 192.0.2.1"));
  EXPECT_EQ(findings[1].verdict, Verdict::good);
  ASSERT_NE(way.usable(), nullptr);
  EXPECT_EQ(way.usable()->host, "192.0.2.1");
}

TEST(DoctorWay, IsBadWhereNoAddressIsReached) {
  const auto way = name_of({attempt_of("192.0.2.1", Reach::refused, ECONNREFUSED),
                            attempt_of("192.0.2.2", Reach::no_answer, ETIMEDOUT)});
  const auto findings = findings_of(way);
  ASSERT_THAT(findings, SizeIs(2));
  for (const Finding& finding : findings) EXPECT_EQ(finding.verdict, Verdict::bad);
  EXPECT_THAT(findings[0].remedy, HasSubstr("hbmwire doctor --serve -p 7700"));
  EXPECT_THAT(findings[1].found, HasSubstr("a firewall drops TCP port 7700"));
  EXPECT_EQ(way.usable(), nullptr);
}

TEST(DoctorWay, TellsEachLocalCauseInItsOwnWords) {
  struct Row {
    int error;
    const char* host;
    const char* found;
  };

  for (const Row& row :
       {Row{EAFNOSUPPORT, "fd00::1", "has no IPv6"}, Row{ENETUNREACH, "192.0.2.1", "no IPv4 route"},
        Row{EADDRNOTAVAIL, "fd00::1", "no IPv6 route or source address"},
        Row{EACCES, "192.0.2.1", "a rule of this machine"},
        Row{EPERM, "192.0.2.1", "a rule of this machine"},
        Row{EINVAL, "192.0.2.1", "blackhole route"},
        Row{EINVAL, "fe80::1", "without its interface"},
        Row{EHOSTUNREACH, "192.0.2.1", "does not send to it"}}) {
    TcpAttempt attempt = attempt_of(row.host, Reach::unreachable, row.error);
    attempt.local = true;
    const auto findings = findings_of(name_of({attempt}));
    ASSERT_THAT(findings, SizeIs(1));
    EXPECT_THAT(findings[0].found, HasSubstr(row.found));
    EXPECT_THAT(findings[0].remedy, testing::Not(IsEmpty()));
  }
}

TEST(DoctorWay, NamesTheRejectingMachine) {
  using Cause = Unreachable::Cause;
  const auto found = [](const TcpAttempt& attempt) {
    return findings_of(name_of({attempt})).at(0).found;
  };
  EXPECT_THAT(found(told_by("192.0.2.1", Cause::prohibited)),
              HasSubstr("firewall of that machine"));
  EXPECT_THAT(found(told_by("192.0.2.1", Cause::no_port)), HasSubstr("firewall of that machine"));
  EXPECT_THAT(found(told_by("198.51.100.1", Cause::prohibited)),
              HasSubstr("firewall of the router 198.51.100.1"));
  EXPECT_THAT(found(told_by("198.51.100.1", Cause::no_route)), HasSubstr("knows no route"));
  EXPECT_THAT(found(told_by("198.51.100.1", Cause::no_host)), HasSubstr("unreachable"));
  EXPECT_THAT(found(told_by("192.0.2.77", Cause::no_neighbor)), HasSubstr("ARP"));
}

TEST(DoctorWay, TakesARefusalByANicsAddressForAnAnswer) {
  TcpWay way = name_of({attempt_of("192.0.2.1", Reach::refused, ECONNREFUSED),
                        attempt_of("192.0.2.2", Reach::no_answer, ETIMEDOUT)});
  way.name.clear();
  way.addresses = TcpWay::Addresses::of_nics;
  const auto findings = findings_of(way);
  EXPECT_EQ(findings[0].verdict, Verdict::good);
  EXPECT_THAT(findings[0].remedy, IsEmpty());
  EXPECT_EQ(findings[1].verdict, Verdict::slow);
  EXPECT_EQ(way.usable(), nullptr);
}

TEST(DoctorWay, TellsANameThatHasNoAddress) {
  TcpWay way;
  way.name = "node2\x1b[2J";
  way.look_up.why_not = "Name or service not known";
  const auto findings = findings_of(way);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].check, "way-name");
  EXPECT_EQ(findings[0].subject, "node2?[2J");
  EXPECT_EQ(findings[0].verdict, Verdict::bad);
}

TEST(DoctorWay, TellsANameServiceThatIsSlow) {
  TcpWay way = name_of({attempt_of("192.0.2.1", Reach::reached)});
  way.look_up.took = 5001ms;
  const auto findings = findings_of(way);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].verdict, Verdict::slow);
  EXPECT_THAT(findings[0].found, HasSubstr("5.0 s"));
}

TEST(DoctorWay, ReachesAListenerOnTheLoopbackDevice) {
  for (const int family : {AF_INET, AF_INET6}) {
    std::uint16_t port = 0;
    const Fd listener = loopback_listener(family, port);
    if (!listener) continue;
    const auto way = try_name(family == AF_INET ? "127.0.0.1" : "::1", port, 10s);
    ASSERT_TRUE(way) << way.error().text;
    ASSERT_THAT(way->attempts, SizeIs(1));
    EXPECT_EQ(way->attempts[0].reach, Reach::reached);
    ASSERT_NE(way->usable(), nullptr);
    EXPECT_EQ(way->usable()->port, port);
  }
}

TEST(DoctorWay, LooksANameUp) {
  std::uint16_t port = 0;
  const Fd listener = loopback_listener(AF_INET, port);
  ASSERT_TRUE(listener);
  const auto way = try_name("localhost", port, 10s);
  ASSERT_TRUE(way) << way.error().text;
  ASSERT_NE(way->usable(), nullptr);
  EXPECT_EQ(way->usable()->host, "127.0.0.1");
}

TEST(DoctorWay, IsRefusedWhereNoProgramListens) {
  std::uint16_t port = 0;
  loopback_listener(AF_INET, port).reset();
  const auto way = try_name("127.0.0.1", port, 10s);
  ASSERT_TRUE(way) << way.error().text;
  EXPECT_EQ(way->attempts.at(0).reach, Reach::refused);
  EXPECT_EQ(way->attempts.at(0).error, ECONNREFUSED);
  EXPECT_FALSE(way->attempts.at(0).local);
}

TEST(DoctorWay, EndsWhenItIsInterrupted) {
  // The backlog is full, so the kernel answers no more SYNs.
  Fd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const auto host = ip_address("127.0.0.1", 0).value();
  ASSERT_EQ(::bind(listener.get(), host.get(), host.length), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  auto* address = reinterpret_cast<sockaddr*>(&bound);
  ASSERT_EQ(::getsockname(listener.get(), address, &length), 0);
  std::vector<Fd> fill;
  for (int i = 0; i < 4; ++i) {
    fill.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ::connect(fill.back().get(), address, length);
  }
  const Fd cancelled{::eventfd(1, EFD_CLOEXEC)};
  const auto began = Deadline::Clock::now();
  const auto way = try_addresses({ip_address_of(address, length)}, Wait(10s, cancelled.get()));
  ASSERT_FALSE(way);
  EXPECT_TRUE(way.error().interrupted);
  EXPECT_LT(Deadline::Clock::now() - began, 1s);
  const auto silent = try_addresses({ip_address_of(address, length)}, Wait(100ms));
  ASSERT_TRUE(silent);
  EXPECT_EQ(silent->attempts.at(0).reach, Reach::no_answer);
}

}  // namespace
}  // namespace hbmwire::tools::doctor
