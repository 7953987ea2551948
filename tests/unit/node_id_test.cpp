// SPDX-License-Identifier: MIT
#include "base/node_id.hpp"

#include <gtest/gtest.h>

#include "base/sysfs.hpp"

namespace hbmwire {
namespace {

TEST(NodeId, IsTheKernelsBootId) {
  const auto text = read_line("/proc/sys/kernel/random/boot_id");
  EXPECT_EQ(node_id(), node_id_of(text));
  EXPECT_NE(node_id(), kUnknownNode) << text;
}

TEST(NodeId, IsReadDigitByDigit) {
  const NodeId expected{0x64, 0x46, 0xb6, 0x07, 0xcb, 0xe1, 0x40, 0x2b,
                        0x99, 0xec, 0x5c, 0x33, 0x2d, 0xcf, 0xd2, 0xb9};
  EXPECT_EQ(node_id_of("6446b607-cbe1-402b-99ec-5c332dcfd2b9"), expected);
  EXPECT_EQ(node_id_of("6446B607CBE1402B99EC5C332DCFD2B9"), expected);
}

TEST(NodeId, IsUnknownWhereTheTextIsNoBootId) {
  for (const char* const text :
       {"", "6446b607", "6446b607-cbe1-402b-99ec-5c332dcfd2b",
        "6446b607-cbe1-402b-99ec-5c332dcfd2bx", "6446b607-cbe1-402b-99ec-5c332dcfd2b91",
        "+446b607-cbe1-402b-99ec-5c332dcfd2b9", "00000000-0000-0000-0000-000000000000"}) {
    EXPECT_EQ(node_id_of(text), kUnknownNode) << text;
  }
}

}  // namespace
}  // namespace hbmwire
