// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hbmwire::tools::doctor {

/// Replaces addresses and identifiers in texts. Equal ones get equal placeholders, of the same
/// family as the original. An archive therefore still shows which things are equal, which addresses
/// share a subnet (/24 of IPv4, /64 of IPv6), and which are link-local:
///
///   IPv4              10.0.1.H: subnets are counted, H stays; 169.254.1.H for link-local ones
///   IPv6 and GIDs     2001:db8:0:1::1: subnets and interfaces are counted; fd00:0:0:1::1 for local
///                     ones, fe80::1 for link-local ones
///   IPv4 in IPv6      ::ffff:10.0.1.H
///   GUID, EUI-64      0000:0000:0000:0001: the number of the interface in IPv6
///   MAC               02:00:00:00:00:01; so in names of interfaces: enx020000000001
///   UUID              00000000-0000-0000-0000-000000000001, without dashes where it has none
///
/// Addresses that are the same everywhere stay: zero, loopback, broadcast, multicast, netmasks.
class Placeholders {
 public:
  /// With `has_versions`, four numbers with dots between them are a version, and stay.
  std::string text(std::string_view original, bool has_versions);

 private:
  using Counters = std::map<std::string, std::uint64_t>;

  /// The number of this key; a new key gets the next one.
  static std::uint64_t number(Counters& counters, std::string key);
  /// Removes the first word or address from `rest`, and returns its replacement.
  std::string take(std::string_view& rest, bool has_versions);
  // Each replaces one thing of the kind that its name says. `digits`: without separators.
  std::string numbers(std::string_view run, bool has_versions);
  std::string address(std::string_view text);
  std::string ipv4(std::string_view text);
  std::string ipv6(std::string_view text);
  std::string pairs(std::string_view text, char separator);
  std::string mac(std::string_view digits, std::string_view separator);
  std::string interface(std::string_view digits, std::size_t group_digits);
  std::string dotted_quads(std::string_view text);

  Counters subnets4_;
  Counters subnets6_;
  Counters interfaces_;
  Counters macs_;
  Counters uuids_;
};

}  // namespace hbmwire::tools::doctor
