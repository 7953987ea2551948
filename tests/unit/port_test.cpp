// SPDX-License-Identifier: MIT
#include "verbs/port.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "verbs/nic_state.hpp"

namespace hbmwire::verbs {
namespace {

using Type = GidEntry::Type;

GidEntry entry(int index, const char* address, Type type) {
  GidEntry made;
  made.index = static_cast<std::uint8_t>(index);
  EXPECT_EQ(inet_pton(AF_INET6, address, made.gid.raw), 1);
  made.type = type;
  return made;
}

TEST(ChooseGid, TakesRoceV2OverIpv4BeforeAllElse) {
  const std::vector<GidEntry> table{
      entry(0, "fe80::1", Type::roce_v1), entry(1, "fe80::1", Type::roce_v2),
      entry(2, "::ffff:10.0.0.1", Type::roce_v1), entry(3, "::ffff:10.0.0.1", Type::roce_v2),
      entry(5, "2001:db8::1", Type::roce_v2)};
  EXPECT_EQ(table.at(static_cast<std::size_t>(choose_gid(table, true))).index, 3);
}

TEST(ChooseGid, TakesARoutableAddressBeforeLinkLocal) {
  const std::vector<GidEntry> table{entry(0, "fe80::1", Type::roce_v2),
                                    entry(4, "2001:db8::1", Type::roce_v2)};
  EXPECT_EQ(table.at(static_cast<std::size_t>(choose_gid(table, true))).index, 4);
}

TEST(ChooseGid, TakesVersionTwoLinkLocalBeforeVersionOneRoutable) {
  const std::vector<GidEntry> table{entry(0, "::ffff:10.0.0.1", Type::roce_v1),
                                    entry(1, "fe80::1", Type::roce_v2)};
  EXPECT_EQ(table.at(static_cast<std::size_t>(choose_gid(table, true))).index, 1);
}

TEST(ChooseGid, TakesTheFirstOnInfiniBandAndNoneFromAnEmptyTable) {
  const std::vector<GidEntry> table{entry(0, "fe80::1", Type::infiniband),
                                    entry(1, "2001:db8::1", Type::infiniband)};
  EXPECT_EQ(choose_gid(table, false), 0);
  EXPECT_EQ(choose_gid({}, true), -1);
}

TEST(Mtu, ConvertsBothWays) {
  for (const auto mtu : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    EXPECT_EQ(mtu_from_bytes(mtu_bytes(mtu)), mtu);
  }
  EXPECT_EQ(mtu_bytes(IBV_MTU_1024), 1024U);
  EXPECT_EQ(mtu_from_bytes(1500), IBV_MTU_1024);
}

TEST(NicInterfaces, RoceUsesThoseOfItsGids) {
  const NicInterfaces roce{.numbers = {3, 7}};
  EXPECT_TRUE(roce.has(7, {}));
  EXPECT_FALSE(roce.has(4, {}));
}

TEST(NicInterfaces, InfinibandUsesThoseWithItsGuid) {
  const NicInterfaces infiniband{.guid = {{0x50, 0x6b, 0x4b, 3, 0, 0x21, 0x7d, 0x2e}}};
  // The kernel shows this hardware address as
  // 80:00:02:08:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:21:7d:2e.
  std::vector<std::uint8_t> ipoib{0x80, 0, 2,    8,    0xfe, 0x80, 0, 0,    0,    0,
                                  0,    0, 0x50, 0x6b, 0x4b, 3,    0, 0x21, 0x7d, 0x2e};
  EXPECT_TRUE(infiniband.has(3, ipoib));
  ipoib.back() = 0x2f;
  EXPECT_FALSE(infiniband.has(3, ipoib));
  EXPECT_FALSE(infiniband.has(3, std::vector<std::uint8_t>(6)));
}

}  // namespace
}  // namespace hbmwire::verbs
