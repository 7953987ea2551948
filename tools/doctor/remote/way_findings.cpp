// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/remote/way.hpp"
#include "tools/wire/messages.hpp"

namespace hbmwire::tools::doctor {
namespace {

using Reach = TcpAttempt::Reach;
using UnreachableCause = Unreachable::Cause;

/// The event, and its remedy.
struct WayWords {
  std::string found;
  std::string remedy;
};

std::string allow_port(const IpAddress& address) {
  return fmt::format("firewall-cmd --add-port={}/tcp", address.port);
}

std::string ask_route(const IpAddress& address) {
  return fmt::format("ip route get {}", address.host);
}

std::string family_of(const IpAddress& address) { return address.is_ipv6() ? "IPv6" : "IPv4"; }

bool lacks_scope(const IpAddress& address) {
  return address.host.starts_with("fe80:") && address.host.find('%') == std::string::npos;
}

/// connect(2) failed at once: this machine has no route for the first packet.
WayWords local_words(const TcpAttempt& attempt) {
  const IpAddress& address = attempt.address;
  const std::string errno_words = error_words(attempt.error);
  switch (attempt.error) {
    case EAFNOSUPPORT:
      return {fmt::format("this machine has no {}: {}", family_of(address), errno_words),
              "name an address of the other family"};
    case ENETUNREACH:
    case EADDRNOTAVAIL:
      return {
          fmt::format("this machine has no {} route or source address for it: {}",
                      family_of(address), errno_words),
          fmt::format("{}, and ip addr; or name an address that has a route", ask_route(address))};
    case EACCES:
    case EPERM:
      return {"a rule of this machine forbids it: " + errno_words,
              ask_route(address) + ", ip rule, and nft list ruleset, here"};
    case EINVAL:
      if (lacks_scope(address))
        return {"a link-local address without its interface: " + errno_words,
                fmt::format("name it as {}%INTERFACE", address.host)};
      return {"a blackhole route of this machine drops it: " + errno_words,
              ask_route(address) + ", and ip route del"};
    default:
      return {"this machine does not send to it: " + errno_words, ask_route(address)};
  }
}

/// A packet left, and an ICMP message came back.
WayWords told_words(const TcpAttempt& attempt, const Unreachable& told) {
  const IpAddress& address = attempt.address;
  const bool is_far_end = told.by == address.host;
  const std::string who = is_far_end ? "that machine" : "the router " + told.by;
  switch (told.cause) {
    case UnreachableCause::no_neighbor:
      return {"the next hop towards it, that machine or a router, does not answer ARP or ND",
              fmt::format(
                  "{}, and ip neigh; check address, VLAN and cable, and that the next hop is up",
                  ask_route(address))};
    case UnreachableCause::no_route:
      return {who + " knows no route to it", "add the route on " + who};
    case UnreachableCause::no_port:
    case UnreachableCause::prohibited:
      return {fmt::format("a firewall of {} rejects TCP port {}", who, address.port),
              is_far_end ? allow_port(address) + ", on that machine"
                         : fmt::format("let {} pass TCP port {}", who, address.port)};
    case UnreachableCause::no_host:
    case UnreachableCause::too_big:  // not expected, since the first packet of TCP is small
      break;
  }
  return {fmt::format("{} says that it is unreachable: {}", who, error_words(attempt.error)),
          fmt::format("check that the machine is up, and the routes of {}", who)};
}

WayWords words_of(const TcpAttempt& attempt) {
  const IpAddress& address = attempt.address;
  switch (attempt.reach) {
    case Reach::reached:
      return {fmt::format("reached in {} ms", attempt.took.count()), {}};
    case Reach::refused:
      return {fmt::format("the machine is there, and refuses: no program listens on TCP port {}",
                          address.port),
              fmt::format("hbmwire doctor --serve -p {}, on that machine; if that runs, a firewall "
                          "rejects: {}",
                          address.port, allow_port(address))};
    case Reach::no_answer:
      return {fmt::format("no answer within {:.1f} s: a firewall drops TCP port {}, or the machine "
                          "is off",
                          static_cast<double>(attempt.took.count()) / 1000, address.port),
              fmt::format("ping {}; if it answers: {}, on that machine and in between",
                          address.host, allow_port(address))};
    case Reach::unreachable:
      break;
  }
  if (attempt.local) return local_words(attempt);
  if (attempt.told) return told_words(attempt, *attempt.told);
  return {"unreachable: " + error_words(attempt.error), ask_route(address)};
}

/// A refusal from a NIC's address is still an answer of that machine.
bool is_answered(const TcpWay& way, const TcpAttempt& attempt) {
  return attempt.reach == Reach::reached ||
         (attempt.reach == Reach::refused && way.addresses == TcpWay::Addresses::of_nics);
}

/// `any`: whether at least one address of the machine is answered.
Finding finding_of_attempt(const TcpWay& way, const TcpAttempt& attempt, bool any) {
  WayWords words = words_of(attempt);
  Finding finding{.check = "way",
                  .subject = attempt.address.text(),
                  .verdict = Verdict::good,
                  .source = "connect(2)",
                  .found = std::move(words.found),
                  .wanted = "a TCP connection",
                  .remedy = std::move(words.remedy)};
  if (is_answered(way, attempt)) {
    if (attempt.reach == Reach::refused)
      finding.found = "that machine answers, and listens on another address";
    finding.remedy.clear();
    return finding;
  }
  finding.verdict = any ? Verdict::slow : Verdict::bad;
  if (const IpAddress* usable = way.usable(); usable != nullptr && !way.name.empty()) {
    finding.wanted =
        "a TCP connection by every address of the name, since programs try one after "
        "the other";
    finding.remedy += fmt::format("; or name {}", usable->host);
  }
  return finding;
}

/// Only for names: an address in numbers needs no look-up.
std::vector<Finding> name_findings(const TcpWay& way) {
  constexpr std::chrono::milliseconds kSlow(1500);
  const bool found = way.look_up.why_not.empty();
  if (way.name.empty() || (found && way.look_up.took < kSlow)) return {};
  const std::string name = wire::printable(way.name);
  const double seconds = static_cast<double>(way.look_up.took.count()) / 1000;
  return {{.check = "way-name",
           .subject = name,
           .verdict = found ? Verdict::slow : Verdict::bad,
           .source = "getaddrinfo(3)",
           .found = found ? fmt::format("its addresses came after {:.1f} s", seconds)
                          : fmt::format("{}, after {:.1f} s", way.look_up.why_not, seconds),
           .wanted = found ? "an answer within a second" : "an address",
           .remedy = fmt::format("getent ahosts {}, /etc/hosts, and the name servers in "
                                 "/etc/resolv.conf; or the address instead of the name",
                                 name)}};
}

}  // namespace

std::vector<Finding> findings_of(const TcpWay& way) {
  std::vector<Finding> findings = name_findings(way);
  const bool any = std::ranges::any_of(
      way.attempts, [&](const TcpAttempt& each) { return is_answered(way, each); });
  for (const TcpAttempt& attempt : way.attempts)
    findings.push_back(finding_of_attempt(way, attempt, any));
  return findings;
}

}  // namespace hbmwire::tools::doctor
