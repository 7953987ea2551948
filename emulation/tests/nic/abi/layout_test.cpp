// SPDX-License-Identifier: MIT
#include "emulation/nic/abi/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

/// The plugin below made-up libraries (made_up_libibverbs.cpp) with the private interface of a
/// release of rdma-core. Some of these releases are in no distribution here.
namespace hbmwire::test {
namespace {

using emulation::nic::abi::count_operations;
using emulation::nic::abi::Entry;
using emulation::nic::abi::Implementation;
using emulation::nic::abi::kLayouts;
using emulation::nic::abi::kOperations;
using emulation::nic::abi::lay_out;
using emulation::nic::abi::Operation;
using ::testing::IsEmpty;

// The operations in the order of libibverbs/driver.h, at the tags of rdma-core.
constexpr const char* kOperationsOf34And57 =
    "advise_mr alloc_dm alloc_mw alloc_null_mr alloc_parent_domain alloc_pd alloc_td "
    "async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd cq_event "
    "create_ah create_counters create_cq create_cq_ex create_flow create_flow_action_esp "
    "create_qp create_qp_ex create_rwq_ind_table create_srq create_srq_ex create_wq "
    "dealloc_mw dealloc_pd dealloc_td dereg_mr destroy_ah destroy_counters destroy_cq "
    "destroy_flow destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq destroy_wq "
    "detach_mcast free_context free_dm get_srq_num import_dm import_mr import_pd modify_cq "
    "modify_flow_action_esp modify_qp modify_qp_rate_limit modify_srq modify_wq open_qp "
    "open_xrcd poll_cq post_recv post_send post_srq_ops post_srq_recv query_device_ex "
    "query_ece query_port query_qp query_qp_data_in_order query_rt_values query_srq "
    "read_counters reg_dm_mr reg_dmabuf_mr reg_mr req_notify_cq rereg_mr resize_cq set_ece "
    "unimport_dm unimport_mr unimport_pd ";
constexpr const char* kOperationsOf59 =
    "advise_mr alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain alloc_pd "
    "alloc_td async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd cq_event "
    "create_ah create_counters create_cq create_cq_ex create_flow create_flow_action_esp "
    "create_qp create_qp_ex create_rwq_ind_table create_srq create_srq_ex create_wq "
    "dealloc_dmah dealloc_mw dealloc_pd dealloc_td dereg_mr destroy_ah destroy_counters "
    "destroy_cq destroy_flow destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq "
    "destroy_wq detach_mcast free_context free_dm get_srq_num import_dm import_mr import_pd "
    "modify_cq modify_flow_action_esp modify_qp modify_qp_rate_limit modify_srq modify_wq "
    "open_qp open_xrcd poll_cq post_recv post_send post_srq_ops post_srq_recv query_device_ex "
    "query_ece query_port query_qp query_qp_data_in_order query_rt_values query_srq "
    "read_counters reg_dm_mr reg_dmabuf_mr reg_mr reg_mr_ex req_notify_cq rereg_mr resize_cq "
    "set_ece unimport_dm unimport_mr unimport_pd ";
constexpr const char* kOperationsOf62 =
    "advise_mr alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain alloc_pd "
    "alloc_td async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd cq_event "
    "create_ah create_counters create_cq create_cq_ex create_flow create_flow_action_esp "
    "create_qp create_qp_ex create_rwq_ind_table create_srq create_srq_ex create_wq "
    "dealloc_dmah dealloc_mw dealloc_pd dealloc_td dereg_mr destroy_ah destroy_counters "
    "destroy_cq destroy_flow destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq "
    "destroy_wq detach_mcast dm_export_dmabuf_fd free_context free_dm get_srq_num import_dm "
    "import_mr import_pd modify_cq modify_flow_action_esp modify_qp modify_qp_rate_limit "
    "modify_srq modify_wq open_qp open_xrcd poll_cq post_recv post_send post_srq_ops "
    "post_srq_recv query_device_ex query_ece query_port query_port_speed query_qp "
    "query_qp_data_in_order query_rt_values query_srq read_counters reg_dm_mr reg_dmabuf_mr "
    "reg_mr reg_mr_ex req_notify_cq rereg_mr resize_cq set_ece unimport_dm unimport_mr "
    "unimport_pd ";
constexpr const char* kOperationsOf64 =
    "advise_mr alloc_buf alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain "
    "alloc_pd alloc_td async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd "
    "cq_event create_ah create_counters create_cq create_cq_ex create_flow "
    "create_flow_action_esp create_qp create_qp_ex create_rwq_ind_table create_srq "
    "create_srq_ex create_wq dealloc_dmah dealloc_mw dealloc_pd dealloc_td dereg_mr "
    "destroy_ah destroy_counters destroy_cq destroy_flow destroy_flow_action destroy_qp "
    "destroy_rwq_ind_table destroy_srq destroy_wq detach_mcast dm_export_dmabuf_fd free_buf "
    "free_context free_dm get_srq_num import_dm import_mr import_pd modify_cq "
    "modify_flow_action_esp modify_qp modify_qp_rate_limit modify_srq modify_wq open_qp "
    "open_xrcd poll_cq post_recv post_send post_srq_ops post_srq_recv query_device_ex "
    "query_ece query_port query_port_speed query_qp query_qp_data_in_order query_rt_values "
    "query_srq read_counters reg_dm_mr reg_dmabuf_mr reg_mr reg_mr_ex req_notify_cq rereg_mr "
    "resize_cq set_ece unimport_dm unimport_mr unimport_pd ";
constexpr const char* kOperationsOf65 =
    "advise_mr alloc_buf alloc_dm alloc_dmah alloc_mw alloc_null_mr alloc_parent_domain "
    "alloc_pd alloc_td async_event attach_counters_point_flow attach_mcast bind_mw close_xrcd "
    "cq_event create_ah create_comp_cntr create_counters create_cq create_cq_ex create_flow "
    "create_flow_action_esp create_qp create_qp_ex create_rwq_ind_table create_srq "
    "create_srq_ex create_wq dealloc_dmah dealloc_mw dealloc_pd dealloc_td dereg_mr "
    "destroy_ah destroy_comp_cntr destroy_counters destroy_cq destroy_flow "
    "destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq destroy_wq detach_mcast "
    "dm_export_dmabuf_fd free_buf free_context free_dm get_srq_num import_dm import_mr "
    "import_pd inc_comp_cntr inc_err_comp_cntr modify_cq modify_flow_action_esp modify_qp "
    "modify_qp_rate_limit modify_srq modify_wq open_qp open_xrcd poll_cq post_recv post_send "
    "post_srq_ops post_srq_recv qp_attach_comp_cntr query_comp_cntr_caps query_device_ex "
    "query_ece query_port query_port_speed query_qp query_qp_data_in_order query_rt_values "
    "query_srq read_comp_cntr read_counters read_err_comp_cntr reg_dm_mr reg_dmabuf_mr reg_mr "
    "reg_mr_ex req_notify_cq rereg_mr resize_cq set_comp_cntr set_ece set_err_comp_cntr "
    "unimport_dm unimport_mr unimport_pd ";

struct Release {
  const char* library;
  const char* operations;
};

constexpr std::array kReleases = {
    Release{"39", kOperationsOf34And57}, Release{"44", kOperationsOf34And57},
    Release{"56", kOperationsOf34And57}, Release{"57", kOperationsOf34And57},
    Release{"59", kOperationsOf59},      Release{"62", kOperationsOf62},
    Release{"64", kOperationsOf64},      Release{"65", kOperationsOf65}};

std::vector<std::string> words_of(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

struct Seen {
  int status = -1;
  std::string said;                              // output that is not about the table
  std::map<std::size_t, unsigned long> entries;  // index in the table -> offset in the plugin
};

/// Loads the plugin below a made-up libibverbs in a new process, and opens a device.
Seen load_below(const std::string& library) {
  const std::string command =
      "'" HBMWIRE_LOAD_BELOW "' '" HBMWIRE_MADE_UP "/" + library + "/libibverbs.so.1' 2>&1";
  Seen seen;
  std::FILE* const stream = ::popen(command.c_str(), "r");
  if (stream == nullptr) return seen;
  std::array<char, 512> line{};
  while (std::fgets(line.data(), line.size(), stream) != nullptr) {
    std::size_t place = 0;
    unsigned long address = 0;
    if (std::sscanf(line.data(), "entry %zu %lx", &place, &address) == 2)
      seen.entries[place] = address;
    else
      seen.said += line.data();
  }
  seen.status = ::pclose(stream);
  return seen;
}

std::map<std::string, unsigned long> by_name(const Seen& seen, const char* operations) {
  const auto names = words_of(operations);
  std::map<std::string, unsigned long> named;
  for (const auto& [place, address] : seen.entries) {
    EXPECT_LT(place, names.size());
    if (place < names.size()) named[names[place]] = address;
  }
  return named;
}

TEST(Layout, HasEachReleaseOnce) {
  unsigned next = kLayouts.front().first_release;
  for (const auto& layout : kLayouts) {
    EXPECT_EQ(layout.first_release, next);
    next = layout.last_release + 1;
  }
  EXPECT_EQ(next, 66U);
}

TEST(Layout, CountsTheOperationsOfEachRelease) {
  const std::array<std::size_t, kLayouts.size()> counts = {76, 76, 79, 81, 83, 93};
  for (std::size_t index = 0; index < kLayouts.size(); ++index)
    EXPECT_EQ(count_operations(kLayouts[index]), counts[index]);
}

/// libibverbs opens the file that IBV_DRIVERS names, with its own "-rdmavN.so" at the end.
TEST(Layout, HasAFileForTheNumberOfEachRelease) {
  const char* const plugin = std::getenv("IBV_DRIVERS");
  ASSERT_NE(plugin, nullptr);
  for (const auto& layout : kLayouts) {
    const std::string file = std::string(plugin) + "-rdmav" + std::to_string(layout.abi) + ".so";
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
}

/// Each operation has its number plus one for an implementation, which shows where it was placed.
TEST(Layout, PutsEachOperationWhereItsReleaseHasIt) {
  std::vector<Implementation> all;
  for (std::size_t number = 0; number < kOperations; ++number)
    all.push_back({static_cast<Operation>(number), reinterpret_cast<Entry>(number + 1)});
  const auto names = words_of(kOperationsOf65);
  ASSERT_EQ(names.size(), kOperations);
  const std::array<const char*, kLayouts.size()> expected = {
      kOperationsOf34And57, kOperationsOf34And57, kOperationsOf59,
      kOperationsOf62,      kOperationsOf64,      kOperationsOf65};
  for (std::size_t index = 0; index < kLayouts.size(); ++index) {
    std::vector<std::string> placed;
    for (const Entry entry : lay_out(kLayouts[index], all))
      placed.push_back(names[reinterpret_cast<std::size_t>(entry) - 1]);
    EXPECT_EQ(placed, words_of(expected[index])) << "rdma-core " << kLayouts[index].first_release;
  }
}

TEST(MadeUpLibibverbs, FindsTheSameFunctionsByEveryLayout) {
  const auto reference = by_name(load_below("44"), kOperationsOf34And57);
  EXPECT_GT(reference.size(), 40U);
  EXPECT_EQ(reference.count("poll_cq"), 1U);
  for (const Release& release : kReleases) {
    const Seen seen = load_below(release.library);
    EXPECT_EQ(seen.status, 0) << release.library;
    EXPECT_EQ(seen.said, "registered\nopened\n") << release.library;
    auto named = by_name(seen, release.operations);
    for (const auto& [name, address] : reference)
      EXPECT_EQ(named[name], address) << release.library << ": " << name;
    // Calls that older releases lack are answered as calls that are not modelled.
    for (const auto& [name, address] : named) {
      if (reference.contains(name)) continue;
      EXPECT_EQ(address, reference.at("advise_mr")) << release.library << ": " << name;
    }
  }
}

TEST(MadeUpLibibverbs, AnUnknownInterfaceIsReported) {
  const Seen seen = load_below("99");
  EXPECT_EQ(seen.status, 0);
  EXPECT_EQ(seen.said,
            "emulated NIC: the loaded libibverbs (rdma-core 99.0) has a private interface that is "
            "not known here, so it gets no emulated NICs; install rdma-core 39 to 65\n"
            "not registered\n");
}

/// A libibverbs with a known N, but a larger context than in any release.
TEST(MadeUpLibibverbs, AnUnknownContextIsReported) {
  const Seen seen = load_below("65_larger");
  EXPECT_EQ(seen.status, 0);
  EXPECT_EQ(seen.said,
            "registered\nemulated NIC: the loaded libibverbs lays out its context in an unknown "
            "way\nnot opened\n");
  EXPECT_THAT(seen.entries, IsEmpty());
}

}  // namespace
}  // namespace hbmwire::test
