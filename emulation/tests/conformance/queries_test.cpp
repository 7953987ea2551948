// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "emulation/tests/conformance/conformance.hpp"

/// Queries of a device's properties.
namespace hbmwire::conformance {
namespace {

class Queries : public Conformance {};

TEST_F(Queries, DeviceListEndsWithNull) {
  source("man ibv_get_device_list: a NULL-terminated array, and the number of its entries");
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  ASSERT_NE(devices, nullptr);
  EXPECT_GE(count, 1);
  EXPECT_EQ(devices[count], nullptr);
  for (int index = 0; index < count; ++index) {
    ASSERT_NE(devices[index], nullptr);
    EXPECT_NE(std::string(ibv_get_device_name(devices[index])), "");
  }
  ibv_free_device_list(devices);
}

TEST_F(Queries, AnOpenDeviceOutlivesTheList) {
  source("man ibv_get_device_list: free the list after opening; opened devices stay valid");
  EXPECT_NE(std::string(ibv_get_device_name(nic.context()->device)), "");
  EXPECT_GE(nic.context()->async_fd, 0);
  EXPECT_GE(nic.context()->num_comp_vectors, 1);
}

TEST_F(Queries, GuidIsTheNodeGuid) {
  source("man ibv_get_device_guid, ibv_query_device: node_guid, both in network order");
  EXPECT_NE(nic.limits().node_guid, 0U);
  EXPECT_EQ(ibv_get_device_guid(nic.context()->device), nic.limits().node_guid);
}

TEST_F(Queries, NodeTypeHasAName) {
  source("man ibv_node_type_str");
  EXPECT_EQ(nic.context()->device->node_type, IBV_NODE_CA);
  EXPECT_NE(std::string(ibv_node_type_str(nic.context()->device->node_type)), "unknown");
}

TEST_F(Queries, DeviceIndexIsKnownOrMinusOne) {
  source("man ibv_get_device_index: -1 when the kernel does not give one");
  EXPECT_GE(ibv_get_device_index(nic.context()->device), -1);
}

TEST_F(Queries, LimitsAreThoseOfAWorkingDevice) {
  source("man ibv_query_device; IBTA vol. 1, chapter 11, Query HCA: the least that an HCA has");
  const ibv_device_attr& limits = nic.limits();
  EXPECT_GE(limits.phys_port_cnt, 1);
  EXPECT_GE(limits.max_qp, 1);
  EXPECT_GE(limits.max_qp_wr, 1);
  EXPECT_GE(limits.max_sge, 2);
  EXPECT_GE(limits.max_cq, 1);
  EXPECT_GE(limits.max_cqe, 1);
  EXPECT_GE(limits.max_mr, 1);
  EXPECT_GE(limits.max_pd, 1);
  EXPECT_GE(limits.max_pkeys, 1);
  EXPECT_GE(limits.max_qp_rd_atom, 1);
  EXPECT_GE(limits.max_qp_init_rd_atom, 1);
  EXPECT_GT(limits.max_mr_size, 0U);
  EXPECT_NE(limits.page_size_cap & 4096U, 0U) << "pages of 4096 bytes";
  EXPECT_LT(::strnlen(limits.fw_ver, sizeof limits.fw_ver), sizeof limits.fw_ver);
}

TEST_F(Queries, WindowFlagsAndCountsAgree) {
  source("man ibv_query_device: max_mw; verbs.h: IBV_DEVICE_MEM_WINDOW*");
  constexpr unsigned kWindows =
      IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if ((nic.limits().device_cap_flags & kWindows) != 0) {
    EXPECT_GT(nic.limits().max_mw, 0);
  } else {
    EXPECT_EQ(ibv_alloc_mw(nic.pd(), IBV_MW_TYPE_1), nullptr);
  }
  constexpr unsigned kBoth = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  EXPECT_NE(nic.limits().device_cap_flags & kBoth, kBoth)
      << "IBTA vol. 1: type 2 windows are 2A or 2B";
}

TEST_F(Queries, SrqLimitsAgree) {
  source("man ibv_query_device: max_srq, max_srq_wr, max_srq_sge");
  const ibv_device_attr& limits = nic.limits();
  EXPECT_EQ(limits.max_srq > 0, limits.max_srq_wr > 0);
  EXPECT_EQ(limits.max_srq > 0, limits.max_srq_sge > 0);
}

TEST_F(Queries, MulticastLimitsAgree) {
  source("man ibv_query_device: max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach");
  const ibv_device_attr& limits = nic.limits();
  if (limits.max_mcast_grp == 0) GTEST_SKIP() << nic.lacks_multicast();
  EXPECT_GT(limits.max_mcast_qp_attach, 0);
  EXPECT_GE(limits.max_total_mcast_qp_attach, limits.max_mcast_qp_attach);
}

TEST_F(Queries, ExtendedDeviceAttributesBeginWithThePlainOnes) {
  source("man ibv_query_device_ex: orig_attr");
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(nic.context(), nullptr, &extended), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &nic.limits(), sizeof(ibv_device_attr)), 0);
}

TEST_F(Queries, ExtendedDeviceQueryTakesNoUnknownInput) {
  source("man ibv_query_device_ex: comp_mask; libibverbs: EINVAL");
  ibv_device_attr_ex extended{};
  const ibv_query_device_ex_input input{.comp_mask = 1U << 31U};
  EXPECT_EQ(ibv_query_device_ex(nic.context(), &input, &extended), EINVAL);
}

TEST_F(Queries, PortIsUp) {
  source("man ibv_query_port; the suite needs an active port");
  EXPECT_EQ(nic.port().state, IBV_PORT_ACTIVE);
  EXPECT_EQ(std::string(ibv_port_state_str(nic.port().state)), "active");
}

TEST_F(Queries, PortAttributesAgreeWithEachOther) {
  source("man ibv_query_port; IBTA vol. 1, chapter 11, Query HCA: port attributes");
  const ibv_port_attr& port = nic.port();
  EXPECT_GE(port.max_mtu, IBV_MTU_256);
  EXPECT_LE(port.max_mtu, IBV_MTU_4096);
  EXPECT_GE(port.active_mtu, IBV_MTU_256);
  EXPECT_LE(port.active_mtu, port.max_mtu);
  EXPECT_GE(port.max_msg_sz, 1U << 20U);
  EXPECT_GE(port.pkey_tbl_len, 1);
  EXPECT_GE(port.gid_tbl_len, 1);
  EXPECT_NE(port.active_width, 0);
  EXPECT_NE(port.active_speed, 0);
  EXPECT_TRUE(port.link_layer == IBV_LINK_LAYER_ETHERNET ||
              port.link_layer == IBV_LINK_LAYER_INFINIBAND);
}

TEST_F(Queries, MissingPortsAreRefused) {
  source("man ibv_query_port; Linux drivers/infiniband/core/device.c, ib_query_port: EINVAL");
  ibv_port_attr port{};
  EXPECT_EQ(ibv_query_port(nic.context(), 0, &port), EINVAL);
  const auto beyond = static_cast<std::uint8_t>(nic.limits().phys_port_cnt + 1);
  EXPECT_EQ(ibv_query_port(nic.context(), beyond, &port), EINVAL);
}

TEST_F(Queries, EveryPortAnswers) {
  source("man ibv_query_port: ports are numbered from 1 to phys_port_cnt");
  for (unsigned port = 1; port <= nic.limits().phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    EXPECT_EQ(ibv_query_port(nic.context(), static_cast<std::uint8_t>(port), &attributes), 0);
  }
}

TEST_F(Queries, GidOfAnIndexIsTheSameByEachCall) {
  source("man ibv_query_gid, ibv_query_gid_ex");
  ibv_gid plain{};
  ASSERT_EQ(ibv_query_gid(nic.context(), settings().port, nic.gid_index(), &plain), 0);
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(nic.context(), settings().port, nic.gid_index(), &entry, 0), 0);
  EXPECT_EQ(std::memcmp(plain.raw, entry.gid.raw, sizeof plain.raw), 0);
  EXPECT_EQ(entry.gid_index, nic.gid_index());
  EXPECT_EQ(entry.port_num, settings().port);
  EXPECT_EQ(entry.gid_type == IBV_GID_TYPE_IB, !nic.is_ethernet());
}

TEST_F(Queries, GidTableHasTheEntriesThatTheIndexesHave) {
  source("man ibv_query_gid_table: the valid entries of all ports; the number of them");
  // An attribute of the kernel's ioctl has at most 65535 bytes, which is 2047 entries. The kernel
  // refuses more with EINVAL.
  std::vector<ibv_gid_entry> entries(2000);
  const ssize_t count = ibv_query_gid_table(nic.context(), entries.data(), entries.size(), 0);
  ASSERT_GE(count, 1);
  entries.resize(static_cast<std::size_t>(count));
  EXPECT_TRUE(std::any_of(entries.begin(), entries.end(), [&](const ibv_gid_entry& entry) {
    return entry.port_num == settings().port && entry.gid_index == nic.gid_index() &&
           std::memcmp(entry.gid.raw, nic.gid().raw, sizeof entry.gid.raw) == 0;
  }));
  static constexpr std::uint8_t kNone[16] = {};
  for (const ibv_gid_entry& entry : entries) {
    EXPECT_NE(std::memcmp(entry.gid.raw, kNone, sizeof kNone), 0) << "an empty entry is none";
  }
}

TEST_F(Queries, GidTableThatDoesNotFitIsRefused) {
  source(
      "man ibv_query_gid_table: a negative errno value; Linux uverbs_std_types_device.c: EINVAL");
  ibv_gid_entry entry{};
  EXPECT_LT(ibv_query_gid_table(nic.context(), &entry, 0, 0), 0);
}

TEST_F(Queries, GidBeyondTheTableIsRefused) {
  source("man ibv_query_gid: -1 on error; man ibv_query_gid_ex: an errno value");
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(nic.context(), settings().port, nic.port().gid_tbl_len + 1, &gid), -1);
  ibv_gid_entry entry{};
  EXPECT_NE(ibv_query_gid_ex(nic.context(), settings().port,
                             static_cast<std::uint32_t>(nic.port().gid_tbl_len) + 1, &entry, 0),
            0);
}

TEST_F(Queries, DefaultPkeyIsThere) {
  source("man ibv_query_pkey; IBTA vol. 1, chapter 10, P_Key table: entry 0 is never invalid");
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(nic.context(), settings().port, 0, &pkey), 0);
  EXPECT_NE(pkey & htobe16(0x7fff), 0) << "the base of a valid P_Key is not zero";
}

TEST_F(Queries, PkeyIsFoundByItsValue) {
  source("man ibv_get_pkey_index");
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(nic.context(), settings().port, 0, &pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(nic.context(), settings().port, pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(nic.context(), settings().port, htobe16(0x1234)), -1);
}

TEST_F(Queries, PkeyBeyondTheTableIsRefused) {
  source("man ibv_query_pkey: -1 on error");
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(nic.context(), settings().port, nic.port().pkey_tbl_len, &pkey), -1);
}

TEST_F(Queries, ClockOfTheDeviceRuns) {
  source("man ibv_query_rt_values_ex; man ibv_query_device_ex: completion_timestamp_mask");
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(nic.context(), nullptr, &extended), 0);
  ibv_values_ex first{};
  first.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  const int error = ibv_query_rt_values_ex(nic.context(), &first);
  if (error == EOPNOTSUPP || error == ENOSYS || extended.completion_timestamp_mask == 0)
    GTEST_SKIP() << "the device has no clock to read";
  ASSERT_EQ(error, 0);
  ibv_values_ex second{};
  second.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(nic.context(), &second), 0);
  EXPECT_GE(second.raw_clock.tv_sec, first.raw_clock.tv_sec);
}

TEST_F(Queries, NamesOfEventsAndStatusesAreWords) {
  source("man ibv_event_type_str, ibv_wc_status_str, ibv_port_state_str");
  EXPECT_NE(std::string(ibv_event_type_str(IBV_EVENT_COMM_EST)), "unknown");
  EXPECT_EQ(std::string(ibv_wc_status_str(IBV_WC_SUCCESS)), "success");
  EXPECT_NE(std::string(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR)), "unknown");
}

}  // namespace
}  // namespace hbmwire::conformance
