// SPDX-License-Identifier: MIT
#include "wire/own_addresses.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <string>
#include <vector>

#include "wire/resolve.hpp"

namespace hbmwire::wire {
namespace {

using Hosts = std::vector<std::string>;

IpBytes address_of(const std::string& text) {
  IpBytes bytes{};
  const std::string ipv6 = text.find(':') == std::string::npos ? "::ffff:" + text : text;
  EXPECT_EQ(::inet_pton(AF_INET6, ipv6.c_str(), bytes.data()), 1) << text;
  return bytes;
}

OwnInterface interface_of(const Hosts& texts, std::optional<std::size_t> nic = {},
                          bool loopback = false) {
  OwnInterface interface { .loopback = loopback, .nic = nic };
  for (const std::string& text : texts) interface.addresses.push_back(address_of(text));
  return interface;
}

const OwnInterface kLoopback = interface_of({"127.0.0.1", "::1"}, {}, true);

TEST(HostsForPeers, ArePutInOrderOfTheirUse) {
  const std::vector<OwnInterface> interfaces{
      kLoopback,
      interface_of({"10.0.0.5", "192.0.2.5", "fd00::5", "2001:db8::5", "fe80::5"}),
      interface_of({"10.2.0.5", "fd02::5"}, 1),
      interface_of({"2001:db8:1::5", "169.254.3.4", "10.1.0.5"}, 0),
  };
  EXPECT_EQ(hosts_for_peers(interfaces, true, false),
            (Hosts{"10.1.0.5", "10.2.0.5", "2001:db8:1::5", "fd02::5", "10.0.0.5", "192.0.2.5",
                   "2001:db8::5", "fd00::5"}));
  EXPECT_EQ(hosts_for_peers(interfaces, false, false),
            (Hosts{"10.1.0.5", "10.2.0.5", "10.0.0.5", "192.0.2.5"}));
  EXPECT_EQ(hosts_for_peers(interfaces, true, true),
            (Hosts{"10.1.0.5", "10.2.0.5", "2001:db8:1::5", "fd02::5"}));
}

TEST(HostsForPeers, LoopbackAddressesAreToldOnlyWhereThereIsNoOther) {
  EXPECT_EQ(hosts_for_peers(std::vector{kLoopback}, true, false), (Hosts{"127.0.0.1", "::1"}));
  EXPECT_EQ(hosts_for_peers(std::vector{kLoopback}, false, false), (Hosts{"127.0.0.1"}));
  // Link-local addresses do not count as others. Without others, a service's address on the
  // loopback device is told, too.
  const std::vector<OwnInterface> no_others{
      interface_of({"127.0.0.1", "127.0.0.53"}, {}, true),
      interface_of({"fe80::5", "169.254.1.1"}),
  };
  EXPECT_EQ(hosts_for_peers(no_others, true, false), (Hosts{"127.0.0.1", "127.0.0.53"}));
  // With rdma_cm, an address of no NIC does not count.
  EXPECT_EQ(hosts_for_peers(std::vector{kLoopback, interface_of({"10.0.0.5"})}, true, true),
            (Hosts{"127.0.0.1", "::1"}));
  EXPECT_TRUE(hosts_for_peers({}, true, false).empty());
}

TEST(HostsForPeers, AreToldOnce) {
  EXPECT_EQ(hosts_for_peers(
                std::vector{interface_of({"10.0.0.5", "10.0.0.5"}, 0), interface_of({"10.0.0.5"})},
                true, false),
            (Hosts{"10.0.0.5"}));
}

TEST(OwnInterfaces, AreThoseOfThisMachine) {
  const auto interfaces = own_interfaces();
  ASSERT_TRUE(interfaces);
  for (const OwnInterface& each : *interfaces) {
    EXPECT_NE(each.number, 0U);
    EXPECT_FALSE(each.nic);
    if (each.loopback) {
      EXPECT_NE(std::ranges::find(each.addresses, address_of("127.0.0.1")), each.addresses.end());
    }
  }
}

BoundTo bound_to_text(const char* host) {
  const auto found = resolve(host, 7000, true, {Deadline::after(std::chrono::seconds(5)), -1});
  EXPECT_TRUE(found);
  return bound_to(*(*found)->ai_addr);
}

TEST(BoundTo, OneAddressIsToldAsItself) {
  EXPECT_EQ(bound_to_text("127.0.0.1").host, "127.0.0.1");
  EXPECT_EQ(bound_to_text("::1").host, "::1");
  EXPECT_EQ(bound_to_text("fe80::1%lo").host, "fe80::1%lo");
}

TEST(BoundTo, TheWildcardIsToldAsNoHostWithItsFamilies) {
  EXPECT_EQ(bound_to_text("0.0.0.0").host, "");
  EXPECT_FALSE(bound_to_text("0.0.0.0").ipv6);
  EXPECT_EQ(bound_to_text("::").host, "");
  EXPECT_TRUE(bound_to_text("::").ipv6);
}

}  // namespace
}  // namespace hbmwire::wire
