// SPDX-License-Identifier: MIT
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "emulation/tests/nic/endpoint.hpp"

/// NICs with two ports: the properties of each port. Runs with --nics 2 --ports 2.
namespace hbmwire::test {
namespace {

constexpr const char* kNics[] = {"emu0", "emu1"};
constexpr std::uint8_t kPortNumbers[] = {1, 2};
constexpr std::uint32_t kTableLength = 32;

using GidBytes = std::array<std::uint8_t, 16>;

GidBytes bytes_of(const ibv_gid& gid) {
  GidBytes bytes{};
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

std::vector<ibv_gid_entry> table_of(ibv_context* context) {
  std::vector<ibv_gid_entry> entries(std::size_t{2} * kTableLength);
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  EXPECT_GT(count, 0) << std::strerror(static_cast<int>(-count));
  entries.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return entries;
}

TEST(Ports, AreAsManyAsTheNicSays) {
  const Context context = open_device();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
  EXPECT_EQ(device.phys_port_cnt, 2);
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &extended), 0);
  EXPECT_EQ(extended.phys_port_cnt_ex, 2U);
  ibv_port_attr port{};
  for (const std::uint8_t number : kPortNumbers) {
    EXPECT_EQ(ibv_query_port(context.get(), number, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.gid_tbl_len, static_cast<int>(kTableLength));
  }
  EXPECT_EQ(ibv_query_port(context.get(), 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(context.get(), 3, &port), EINVAL);
}

TEST(Ports, HaveAddressesOfTheirOwn) {
  std::set<GidBytes> seen;
  for (const char* nic : kNics) {
    const Context context = open_device(nic);
    for (const std::uint8_t port : kPortNumbers) {
      for (const int index : {0, 2}) {
        ibv_gid first{};
        ibv_gid second{};
        ASSERT_EQ(ibv_query_gid(context.get(), port, index, &first), 0);
        ASSERT_EQ(ibv_query_gid(context.get(), port, index + 1, &second), 0);
        EXPECT_EQ(bytes_of(first), bytes_of(second)) << "RoCE v1 and v2 of one address";
        EXPECT_TRUE(seen.insert(bytes_of(first)).second) << nic << " port " << int{port};
      }
    }
  }
}

TEST(Ports, InitSetsThePortOfAQp) {
  Endpoint b;
  const Endpoint::Options second_port{.port = 2};
  Endpoint a(second_port);
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_INIT;
  values.port_num = 3;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            EINVAL);
  ASSERT_EQ(a.to_init(), 0);
  values = {};
  values.qp_state = IBV_QPS_RTR;
  values.path_mtu = IBV_MTU_1024;
  values.dest_qp_num = b.address().qpn;
  values.ah_attr.is_global = 1;
  values.ah_attr.grh.dgid = b.address().gid;
  values.ah_attr.grh.sgid_index = kGidIndex;
  const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  values.ah_attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, rtr), EINVAL) << "the path begins at another port";
  values.ah_attr.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(a.qp.get(), &values, rtr), 0);
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &values, IBV_QP_PORT, &init), 0);
  EXPECT_EQ(values.port_num, 2);
}

TEST(Ports, ReachEachOther) {
  Pair pair({.port = 2}, {.port = 1});
  ASSERT_EQ(pair.a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, pair.b.address()), 0);
  expect_completion(pair.a, 1);
  ASSERT_EQ(pair.b.rdma(IBV_WR_RDMA_READ, 2, 0, 8, pair.a.address()), 0);
  expect_completion(pair.b, 2);
}

TEST(Ports, AreReachedUnderTheirOwnGidsOnly) {
  Endpoint a;
  const Endpoint::Options second_port{.port = 2};
  Endpoint b(second_port);
  Address wrong = b.address();
  ASSERT_EQ(ibv_query_gid(b.context.get(), 1, kGidIndex, &wrong.gid), 0);
  a.connect(wrong);
  b.connect(a.address());
  ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, b.address()), 0);
  expect_completion(a, 1, IBV_WC_RETRY_EXC_ERR);
}

TEST(Gids, EveryQueryGivesTheSameGids) {
  const Context context = open_device();
  std::map<std::pair<std::uint32_t, std::uint32_t>, ibv_gid_entry> table;
  for (const ibv_gid_entry& entry : table_of(context.get()))
    table[{entry.port_num, entry.gid_index}] = entry;
  for (const std::uint8_t port : kPortNumbers) {
    for (std::uint32_t index = 0; index < kTableLength; ++index) {
      ibv_gid_entry entry{};
      const int error = ibv_query_gid_ex(context.get(), port, index, &entry, 0);
      ibv_gid gid{};
      ASSERT_EQ(ibv_query_gid(context.get(), port, static_cast<int>(index), &gid), 0);
      const auto found = table.find({port, index});
      if (found == table.end()) {
        EXPECT_EQ(error, ENODATA) << index;
        EXPECT_EQ(bytes_of(gid), GidBytes{});
        continue;
      }
      ASSERT_EQ(error, 0) << index;
      EXPECT_EQ(bytes_of(entry.gid), bytes_of(gid));
      EXPECT_EQ(bytes_of(entry.gid), bytes_of(found->second.gid));
      EXPECT_EQ(entry.gid_type, found->second.gid_type);
      EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(index % 2 == 0 ? IBV_GID_TYPE_ROCE_V1
                                                                          : IBV_GID_TYPE_ROCE_V2));
      EXPECT_EQ(entry.ndev_ifindex, found->second.ndev_ifindex);
    }
    ibv_gid_entry beyond{};
    EXPECT_EQ(ibv_query_gid_ex(context.get(), port, kTableLength, &beyond, 0), EINVAL);
  }
}

TEST(Gids, EmptyEntriesHaveNoAttributes) {
  const Context context = open_device();
  for (const char* attribute : {"types", "ndevs"}) {
    const std::string path = std::string(context->device->ibdev_path) + "/ports/1/gid_attrs/" +
                             attribute + "/" + std::to_string(kTableLength - 1);
    const Fd file(::open(path.c_str(), O_RDONLY));
    ASSERT_GE(file.get(), 0) << path;
    char text[32];
    EXPECT_EQ(::read(file.get(), text, sizeof text), -1);
    EXPECT_EQ(errno, EINVAL) << "as the kernel says of an entry without a GID";
  }
}

struct InterfaceAddress {
  std::string interface;
  GidBytes gid;
  bool expected;  // as a GID of the NICs
};

std::vector<InterfaceAddress> addresses_of_this_machine() {
  std::vector<InterfaceAddress> addresses;
  ifaddrs* list = nullptr;
  EXPECT_EQ(::getifaddrs(&list), 0);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    GidBytes gid{};
    if (at->ifa_addr->sa_family == AF_INET6) {
      const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr);
      std::memcpy(gid.data(), &ipv6->sin6_addr, gid.size());
    } else if (at->ifa_addr->sa_family == AF_INET) {
      const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
      gid[10] = gid[11] = 0xff;
      std::memcpy(&gid[12], &ipv4->sin_addr, 4);
    } else {
      continue;
    }
    const bool expected = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    addresses.push_back({at->ifa_name, gid, expected});
  }
  ::freeifaddrs(list);
  return addresses;
}

TEST(Gids, AreTheAddressesOfTheMachine) {
  // For each GID the (type, interface) of the entries that have it.
  std::map<GidBytes, std::multiset<std::pair<std::uint32_t, std::uint32_t>>> gids;
  for (const char* nic : kNics) {
    const Context context = open_device(nic);
    for (const ibv_gid_entry& entry : table_of(context.get()))
      gids[bytes_of(entry.gid)].insert({entry.gid_type, entry.ndev_ifindex});
  }
  for (const InterfaceAddress& address : addresses_of_this_machine()) {
    const std::uint32_t number = ::if_nametoindex(address.interface.c_str());
    char text[INET6_ADDRSTRLEN];
    ::inet_ntop(AF_INET6, address.gid.data(), text, sizeof text);
    if (!address.expected) {
      EXPECT_FALSE(gids.contains(address.gid)) << text << " of " << address.interface;
      continue;
    }
    const std::multiset<std::pair<std::uint32_t, std::uint32_t>> both{
        {IBV_GID_TYPE_ROCE_V1, number}, {IBV_GID_TYPE_ROCE_V2, number}};
    EXPECT_EQ(gids[address.gid], both) << text << " of " << address.interface;
  }
}

TEST(Gids, GidsOfTheMachineReachTheirPort) {
  // Uses the last GID of each port.
  for (const char* nic : kNics) {
    for (const std::uint8_t port : kPortNumbers) {
      const Endpoint::Options there{.device = nic, .port = port};
      Endpoint a;
      Endpoint b(there);
      Address address = b.address();
      for (const ibv_gid_entry& entry : table_of(b.context.get()))
        if (entry.port_num == port) address.gid = entry.gid;
      a.connect(address);
      b.connect(a.address());
      ASSERT_EQ(a.rdma(IBV_WR_RDMA_WRITE, 1, 0, 8, address), 0);
      expect_completion(a, 1);
    }
  }
}

TEST(Pkeys, TheDefaultKeyIsTheOnlyOne) {
  const Context context = open_device();
  for (const std::uint8_t number : kPortNumbers) {
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context.get(), number, &port), 0);
    EXPECT_EQ(port.pkey_tbl_len, 1);
    __be16 key = 0;
    ASSERT_EQ(ibv_query_pkey(context.get(), number, 0, &key), 0);
    EXPECT_EQ(key, 0xffff);
    EXPECT_NE(ibv_query_pkey(context.get(), number, 1, &key), 0);
    EXPECT_EQ(ibv_get_pkey_index(context.get(), number, 0xffff), 0);
    EXPECT_LT(ibv_get_pkey_index(context.get(), number, htons(0x8001)), 0);
  }
  __be16 key = 0;
  EXPECT_NE(ibv_query_pkey(context.get(), 3, 0, &key), 0);
}

}  // namespace
}  // namespace hbmwire::test
