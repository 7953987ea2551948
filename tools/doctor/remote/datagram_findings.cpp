// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>

#include "tools/doctor/checks/reading.hpp"
#include "tools/doctor/remote/datagrams.hpp"

namespace hbmwire::tools::doctor {
namespace {

using UnreachableCause = Unreachable::Cause;

// Bytes that the kernel reserves for headers: GRH or IP 40, UDP 8, BTH 12, XRC 4, atomic 28,
// ICRC 4.
constexpr std::uint32_t kRoceHeaders = 96;
constexpr std::uint32_t kSmallestRoceMtu = 256;
constexpr std::uint32_t kLargestRoceMtu = 4096;

std::string loss_words(const DatagramWay& way) {
  if (way.error != 0) return "this machine does not send UDP to it: " + error_words(way.error);
  if (!way.told) return "no answer to UDP datagrams";
  const Unreachable& told = *way.told;
  const std::string who = told.by == way.address.host ? "that machine" : "the router " + told.by;
  switch (told.cause) {
    case UnreachableCause::no_neighbor:
      return "the next hop towards it, that machine or a router, does not answer ARP or ND";
    case UnreachableCause::no_route:
    case UnreachableCause::no_host:
      return who + " says that the address is unreachable";
    case UnreachableCause::no_port:
    case UnreachableCause::prohibited:
      return fmt::format("{} rejects UDP port {}", who, way.address.port);
    case UnreachableCause::too_big:
      // If nothing arrives, only the smallest packet was sent, for which no link is too small: the
      // message does not explain the loss.
      break;
  }
  return "no answer to UDP datagrams";
}

/// The verdict is "unknown" at worst. A firewall on the server blocks the kernel's UDP, but not the
/// packets of a NIC in hardware; a firewall in between may pass only port 4791. The pairs show
/// whether RoCE works.
Finding udp_finding(const DatagramWay& way) {
  Finding finding{.check = "way-udp",
                  .subject = way.address.host,
                  .verdict = Verdict::good,
                  .source = fmt::format("UDP port {}", way.address.port),
                  .found = "UDP is answered",
                  .wanted = "an answer, since RoCE v2 is UDP (port 4791)",
                  .remedy = {}};
  if (way.works()) return finding;
  finding.verdict = Verdict::unknown;
  finding.found = loss_words(way);
  finding.remedy = fmt::format(
      "firewall-cmd --add-port={}/udp, on that machine, lets this test pass; where RoCE fails as "
      "well, let firewalls in between pass UDP port 4791 (that machine's own one does not see the "
      "packets of a NIC in hardware)",
      way.address.port);
  return finding;
}

std::string size_words(const DatagramWay& way) {
  std::string words = fmt::format("packets of {} bytes arrive", way.arrived_bytes);
  if (way.arrived_bytes >= way.asked_bytes) return words;
  words +=
      way.exact ? ", and no larger ones" : fmt::format(", and those of {} do not", way.asked_bytes);
  return words;
}

/// The MTUs of both interfaces differ. RoCE and TCP allow for that when they connect.
void judge_ends(const DatagramWay& way, Finding& finding) {
  const std::uint32_t here = way.interface.mtu_bytes;
  const std::uint32_t there = way.far_mtu_bytes;
  finding.found += fmt::format("; {} here has an MTU of {}, that machine's interface of {}",
                               way.interface.name, here, there);
  finding.wanted = "the same MTU at both ends";
  finding.verdict = Verdict::slow;
  finding.remedy = here < there
                       ? fmt::format("ip link set dev {} mtu {}, here", way.interface.name, there)
                       : fmt::format("ip link set dev INTERFACE mtu {}, on that machine", here);
}

/// A part of the network has a smaller MTU than both ends.
void judge_between(const DatagramWay& way, Finding& finding) {
  std::uint32_t ends = way.interface.mtu_bytes;
  if (way.far_mtu_bytes != 0) ends = std::min(ends, way.far_mtu_bytes);
  finding.found +=
      fmt::format("; {} here has an MTU of {}", way.interface.name, way.interface.mtu_bytes);
  if (way.told && way.told->cause == UnreachableCause::too_big)
    finding.found += fmt::format("; the router {} says that its next link takes {}", way.told->by,
                                 way.told->mtu_bytes);
  finding.wanted = fmt::format("packets of {} bytes arrive", std::min(ends, kLargestPacket));
  // The packets of RoCE may still be small enough, but those of TCP are as large as the MTU.
  const bool roce_fits = way.arrived_bytes >= roce_mtu_bytes(ends) + kRoceHeaders;
  finding.verdict = roce_fits ? Verdict::slow : Verdict::bad;
  finding.remedy = fmt::format(
      "larger frames on the switches in between (MTU {} or more), or ip link set dev {} mtu {}, "
      "and the same at the other end",
      ends, way.interface.name, way.arrived_bytes);
}

Finding mtu_finding(const DatagramWay& way) {
  Finding finding{.check = "way-mtu",
                  .subject = way.address.host,
                  .verdict = Verdict::good,
                  .source = fmt::format("UDP port {}, not fragmented", way.address.port),
                  .found = size_words(way),
                  .wanted = fmt::format("packets of {} bytes arrive", way.asked_bytes),
                  .remedy = {}};
  const std::uint32_t here = way.interface.mtu_bytes;
  const std::uint32_t there = way.far_mtu_bytes;
  const bool all_arrive = way.arrived_bytes >= way.asked_bytes;
  // A larger MTU there shows itself only by this comparison: no packet is lost. A smaller one there
  // is a fault only if it loses packets, which is judged below.
  const bool costs_speed = roce_mtu_bytes(there) > roce_mtu_bytes(here);
  if (all_arrive && costs_speed) judge_ends(way, finding);
  if (all_arrive) return finding;
  if (there != 0 && there < here && way.arrived_bytes >= there)
    judge_ends(way, finding);
  else
    judge_between(way, finding);
  return finding;
}

}  // namespace

std::uint32_t roce_mtu_bytes(std::uint32_t interface_mtu_bytes) noexcept {
  for (std::uint32_t mtu = kLargestRoceMtu; mtu >= kSmallestRoceMtu; mtu /= 2) {
    if (interface_mtu_bytes >= mtu + kRoceHeaders) return mtu;
  }
  return 0;
}

std::vector<Finding> findings_of(const DatagramWay& way) {
  std::vector<Finding> findings{udp_finding(way)};
  // If the interface is unknown there is no MTU to compare with.
  if (way.works() && way.interface.mtu_bytes != 0) findings.push_back(mtu_finding(way));
  return findings;
}

}  // namespace hbmwire::tools::doctor
