// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/tests/nic/endpoint.hpp"
#include "emulation/tests/nic/under_plan.hpp"

/// The calls that a fault plan can make fail.
namespace hbmwire::test {
namespace {

/// Makes calls under a plan that fails the first one of each name, and keeps their names.
struct Calls {
  static constexpr int kPlanned = EREMOTEIO;

  static bool makes_no_system_call(std::string_view name) {
    static constexpr std::string_view kPosting[] = {
        "ibv_post_send", "ibv_wr_complete", "ibv_post_recv", "ibv_post_srq_recv", "ibv_start_poll"};
    return std::find(std::begin(kPosting), std::end(kPosting), name) != std::end(kPosting);
  }

  /// Calls `call` twice, and expects that only the first time fails as planned. The call returns 0
  /// or an error number. A call that enters the kernel leaves that number in errno too.
  void twice(const char* name, const std::function<int()>& call) {
    errno = 0;
    EXPECT_EQ(call(), kPlanned) << name;
    const int left = errno;
    EXPECT_EQ(left, makes_no_system_call(name) ? 0 : kPlanned) << name;
    EXPECT_NE(call(), kPlanned) << name;
    names.emplace_back(name);
  }

  /// Calls `make` twice, and expects that only the second time makes an object. Returns it.
  template <typename T>
  T* made_twice(const char* name, const std::function<T*()>& make) {
    T* object = nullptr;
    twice(name, [&] {
      errno = 0;
      object = make();
      return object == nullptr ? errno : 0;
    });
    EXPECT_NE(object, nullptr) << name;
    return object;
  }

  std::vector<std::string> names;
};

constexpr const char* kVerbs[] = {"ibv_open_device",   "ibv_query_device",
                                  "ibv_query_port",    "ibv_query_rt_values_ex",
                                  "ibv_alloc_pd",      "ibv_dealloc_pd",
                                  "ibv_reg_mr",        "ibv_reg_dmabuf_mr",
                                  "ibv_rereg_mr",      "ibv_dereg_mr",
                                  "ibv_alloc_mw",      "ibv_bind_mw",
                                  "ibv_dealloc_mw",    "ibv_create_comp_channel",
                                  "ibv_create_cq",     "ibv_resize_cq",
                                  "ibv_req_notify_cq", "ibv_poll_cq",
                                  "ibv_start_poll",    "ibv_destroy_cq",
                                  "ibv_create_srq",    "ibv_modify_srq",
                                  "ibv_query_srq",     "ibv_post_srq_recv",
                                  "ibv_destroy_srq",   "ibv_create_qp",
                                  "ibv_modify_qp",     "ibv_query_qp",
                                  "ibv_post_send",     "ibv_wr_complete",
                                  "ibv_post_recv",     "ibv_destroy_qp",
                                  "ibv_create_ah",     "ibv_destroy_ah",
                                  "ibv_attach_mcast",  "ibv_detach_mcast",
                                  "ibv_open_xrcd",     "ibv_open_qp",
                                  "ibv_close_xrcd"};

std::string plan_for_all_verbs() {
  std::string plan;
  for (const char* verb : kVerbs)
    plan += std::string("fail,call=") + verb + ",errno=" + std::to_string(Calls::kPlanned) + ";";
  return plan;
}

/// The objects that the calls need.
struct Handles {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq_ex* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
};

void make_device_and_memory(Calls& calls, Handles& all, std::vector<unsigned char>& buffer) {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  ASSERT_NE(devices[0], nullptr);
  all.context =
      calls.made_twice<ibv_context>("ibv_open_device", [&] { return ibv_open_device(devices[0]); });
  ibv_free_device_list(devices);
  ibv_device_attr device{};
  calls.twice("ibv_query_device", [&] { return ibv_query_device(all.context, &device); });
  ibv_port_attr port{};
  calls.twice("ibv_query_port", [&] { return ibv_query_port(all.context, 1, &port); });
  ibv_values_ex values{IBV_VALUES_MASK_RAW_CLOCK, {}};
  calls.twice("ibv_query_rt_values_ex",
              [&] { return ibv_query_rt_values_ex(all.context, &values); });
  all.pd = calls.made_twice<ibv_pd>("ibv_alloc_pd", [&] { return ibv_alloc_pd(all.context); });
  all.mr = calls.made_twice<ibv_mr>("ibv_reg_mr", [&] {
    return (ibv_reg_mr)(all.pd, buffer.data(), buffer.size(), kAllAccess | IBV_ACCESS_MW_BIND);
  });
  calls.twice("ibv_rereg_mr", [&] {
    return ibv_rereg_mr(all.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess) == 0
               ? 0
               : errno;
  });
  const Fd file(::memfd_create("dmabuf", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  ibv_mr* const dmabuf = calls.made_twice<ibv_mr>("ibv_reg_dmabuf_mr", [&] {
    return ibv_reg_dmabuf_mr(all.pd, 0, 4096, 0, file.get(), kAllAccess);
  });
  calls.twice("ibv_dereg_mr", [&] { return ibv_dereg_mr(dmabuf); });
}

void make_queues(Calls& calls, Handles& all) {
  all.channel = calls.made_twice<ibv_comp_channel>(
      "ibv_create_comp_channel", [&] { return ibv_create_comp_channel(all.context); });
  ibv_cq_init_attr_ex cq{};
  cq.cqe = 16;
  cq.channel = all.channel;
  all.cq = calls.made_twice<ibv_cq_ex>("ibv_create_cq",
                                       [&] { return ibv_create_cq_ex(all.context, &cq); });
  ibv_cq* const plain = ibv_cq_ex_to_cq(all.cq);
  calls.twice("ibv_resize_cq", [&] { return ibv_resize_cq(plain, 32); });
  calls.twice("ibv_req_notify_cq", [&] { return ibv_req_notify_cq(plain, 0); });
  // ibv_poll_cq fails with a negative number instead of an errno, so twice() does not fit it.
  ibv_wc completion{};
  EXPECT_LT(ibv_poll_cq(plain, 1, &completion), 0);
  EXPECT_EQ(ibv_poll_cq(plain, 1, &completion), 0);
  calls.names.emplace_back("ibv_poll_cq");
  ibv_poll_cq_attr poll{};
  calls.twice("ibv_start_poll", [&] { return ibv_start_poll(all.cq, &poll); });
  ibv_srq_init_attr srq{};
  srq.attr = {4, 1, 0};
  all.srq =
      calls.made_twice<ibv_srq>("ibv_create_srq", [&] { return ibv_create_srq(all.pd, &srq); });
  ibv_srq_attr limit{4, 1, 1};
  calls.twice("ibv_modify_srq", [&] { return ibv_modify_srq(all.srq, &limit, IBV_SRQ_LIMIT); });
  calls.twice("ibv_query_srq", [&] { return ibv_query_srq(all.srq, &limit); });
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  calls.twice("ibv_post_srq_recv", [&] { return ibv_post_srq_recv(all.srq, &receive, &bad); });
}

void use_a_queue_pair(Calls& calls, Handles& all) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(all.cq);
  init.cap = {4, 4, 1, 1, 0};
  init.pd = all.pd;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  all.qp = calls.made_twice<ibv_qp>("ibv_create_qp",
                                    [&] { return ibv_create_qp_ex(all.context, &init); });
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  calls.twice("ibv_modify_qp", [&] {
    return ibv_modify_qp(all.qp, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  });
  ibv_qp_init_attr plain{};
  calls.twice("ibv_query_qp",
              [&] { return ibv_query_qp(all.qp, &attributes, IBV_QP_STATE, &plain); });
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  calls.twice("ibv_post_recv", [&] { return ibv_post_recv(all.qp, &receive, &bad_receive); });
  EXPECT_EQ(bad_receive, &receive);
  ibv_send_wr send{};
  ibv_send_wr* bad_send = nullptr;
  calls.twice("ibv_post_send", [&] { return ibv_post_send(all.qp, &send, &bad_send); });
  EXPECT_EQ(bad_send, &send);
  ibv_qp_ex* const extended = ibv_qp_to_qp_ex(all.qp);
  calls.twice("ibv_wr_complete", [&] {
    ibv_wr_start(extended);
    ibv_wr_send(extended);
    return ibv_wr_complete(extended);
  });
  ibv_gid group{};
  group.raw[0] = 0xff;
  calls.twice("ibv_attach_mcast", [&] { return ibv_attach_mcast(all.qp, &group, 0); });
  calls.twice("ibv_detach_mcast", [&] { return ibv_detach_mcast(all.qp, &group, 0); });
  ibv_ah_attr address{};
  address.is_global = 1;
  address.port_num = 1;
  address.grh.sgid_index = kGidIndex;
  ibv_ah* const ah =
      calls.made_twice<ibv_ah>("ibv_create_ah", [&] { return ibv_create_ah(all.pd, &address); });
  calls.twice("ibv_destroy_ah", [&] { return ibv_destroy_ah(ah); });
  ibv_mw* const mw =
      calls.made_twice<ibv_mw>("ibv_alloc_mw", [&] { return ibv_alloc_mw(all.pd, IBV_MW_TYPE_1); });
  ibv_mw_bind bind{};
  bind.bind_info = {all.mr, 0, 0, 0};
  calls.twice("ibv_bind_mw", [&] { return ibv_bind_mw(all.qp, mw, &bind); });
  calls.twice("ibv_dealloc_mw", [&] { return ibv_dealloc_mw(mw); });
}

void use_a_domain(Calls& calls, const Handles& all) {
  ibv_xrcd_init_attr init{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  ibv_xrcd* const xrcd = calls.made_twice<ibv_xrcd>(
      "ibv_open_xrcd", [&] { return ibv_open_xrcd(all.context, &init); });
  ibv_qp_init_attr_ex receiver{};
  receiver.qp_type = IBV_QPT_XRC_RECV;
  receiver.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  receiver.xrcd = xrcd;
  Qp first(ibv_create_qp_ex(all.context, &receiver));
  ASSERT_NE(first, nullptr);
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = first->qp_num;
  open.xrcd = xrcd;
  open.qp_type = IBV_QPT_XRC_RECV;
  Qp second(
      calls.made_twice<ibv_qp>("ibv_open_qp", [&] { return ibv_open_qp(all.context, &open); }));
  second.reset();
  first.reset();
  calls.twice("ibv_close_xrcd", [&] { return ibv_close_xrcd(xrcd); });
}

TEST(FaultPlan, FailsEveryCallThatCanFail) {
  if (!under_plan(plan_for_all_verbs())) return;
  Calls calls;
  Handles all;
  std::vector<unsigned char> buffer(4096);
  make_device_and_memory(calls, all, buffer);
  make_queues(calls, all);
  use_a_queue_pair(calls, all);
  calls.twice("ibv_destroy_qp", [&] { return ibv_destroy_qp(all.qp); });
  use_a_domain(calls, all);
  calls.twice("ibv_destroy_srq", [&] { return ibv_destroy_srq(all.srq); });
  calls.twice("ibv_destroy_cq", [&] { return ibv_destroy_cq(ibv_cq_ex_to_cq(all.cq)); });
  EXPECT_EQ(ibv_dereg_mr(all.mr), 0);
  calls.twice("ibv_dealloc_pd", [&] { return ibv_dealloc_pd(all.pd); });
  EXPECT_EQ(ibv_destroy_comp_channel(all.channel), 0);
  EXPECT_EQ(ibv_close_device(all.context), 0);
  std::vector<std::string> expected(std::begin(kVerbs), std::end(kVerbs));
  std::sort(expected.begin(), expected.end());
  std::sort(calls.names.begin(), calls.names.end());
  EXPECT_EQ(calls.names, expected);
}

}  // namespace
}  // namespace hbmwire::test
