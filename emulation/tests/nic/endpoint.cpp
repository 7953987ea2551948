// SPDX-License-Identifier: MIT
#include "emulation/tests/nic/endpoint.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <cstring>
#include <stdexcept>

#include "emulation/tests/nic/plugin.hpp"

namespace hbmwire::test {
namespace {

template <typename T>
T* need(T* object, const char* what) {
  if (object == nullptr) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return object;
}

}  // namespace

Context open_device(const char* name) {
  int count = 0;
  Context context;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr) return context;
  for (int index = 0; index < count; ++index) {
    if (std::strcmp(ibv_get_device_name(devices[index]), name) == 0)
      context.reset(ibv_open_device(devices[index]));
  }
  const int error = errno;
  ibv_free_device_list(devices);
  errno = error;
  return context;
}

Endpoint::Endpoint(const Options& options) : buffer(options.bytes), options_(options) {
  context = open_device(options.device);
  need(context.get(), options.device);
  if (options.with_channel)
    channel.reset(need(ibv_create_comp_channel(context.get()), "ibv_create_comp_channel"));
  pd.reset(need(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
  cq.reset(need(ibv_create_cq(context.get(), options.cq_depth, this, channel.get(), 0),
                "ibv_create_cq"));
  // Avoids verbs.h's macro, which converts the sign of the flags.
  mr.reset(
      need((ibv_reg_mr)(pd.get(), buffer.data(), buffer.size(), options.mr_access), "ibv_reg_mr"));
  if (options.srq_depth != 0) {
    ibv_srq_init_attr shared{};
    shared.attr = {options.srq_depth, 4, 0};
    srq.reset(need(ibv_create_srq(pd.get(), &shared), "ibv_create_srq"));
  }
  next_qp();
}

Qp Endpoint::next_qp() {
  ibv_qp_init_attr init{};
  init.qp_type = options_.type;
  init.send_cq = cq.get();
  init.recv_cq = cq.get();
  init.srq = srq.get();
  init.cap = {options_.depth, options_.depth, 4, 4, options_.max_inline};
  init.sq_sig_all = options_.signal_all ? 1 : 0;
  Qp before(need(ibv_create_qp(pd.get(), &init), "ibv_create_qp"));
  std::swap(qp, before);
  psn = qp->qp_num & 0xfffU;
  return before;
}

Address Endpoint::address() const {
  Address address;
  address.qpn = qp->qp_num;
  address.psn = psn;
  ibv_query_gid(context.get(), options_.port, kGidIndex, &address.gid);
  address.buffer = reinterpret_cast<std::uint64_t>(buffer.data());
  address.rkey = mr->rkey;
  return address;
}

int Endpoint::to_init() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = options_.port;
  attributes.qp_access_flags = options_.qp_access;
  attributes.qkey = kQkey;
  return ibv_modify_qp(qp.get(), &attributes,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           (options_.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int Endpoint::to_rtr(const Address& peer, const Timing& timing, ibv_mtu mtu) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = peer.psn;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = timing.min_rnr_timer;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = options_.port;
  attributes.ah_attr.grh.dgid = peer.gid;
  attributes.ah_attr.grh.sgid_index = kGidIndex;
  attributes.ah_attr.grh.hop_limit = 64;
  int mask = IBV_QP_STATE;
  if (options_.type != IBV_QPT_UD)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (options_.type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return ibv_modify_qp(qp.get(), &attributes, mask);
}

int Endpoint::to_rts(const Timing& timing) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = timing.timeout;
  attributes.retry_cnt = timing.retry_count;
  attributes.rnr_retry = timing.rnr_retry;
  attributes.sq_psn = psn;
  attributes.max_rd_atomic = 4;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (options_.type == IBV_QPT_RC)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp.get(), &attributes, mask);
}

int Endpoint::to(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return ibv_modify_qp(qp.get(), &attributes, IBV_QP_STATE);
}

void Endpoint::connect(const Address& peer, const Timing& timing) {
  ASSERT_EQ(to_init(), 0);
  ASSERT_EQ(to_rtr(peer, timing), 0);
  ASSERT_EQ(to_rts(timing), 0);
}

ibv_sge Endpoint::element(std::size_t offset, std::uint32_t length) const {
  return {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
}

int Endpoint::post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) {
  ibv_sge sge = element(offset, length);
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp.get(), &request, &bad);
}

int Endpoint::post_srq_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) {
  ibv_sge sge = element(offset, length);
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq.get(), &request, &bad);
}

int Endpoint::post(ibv_send_wr request, std::vector<ibv_sge> elements) {
  request.sg_list = elements.data();
  request.num_sge = static_cast<int>(elements.size());
  request.next = nullptr;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp.get(), &request, &bad);
}

int Endpoint::send(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags;
  return post(request, {element(offset, length)});
}

int Endpoint::rdma(ibv_wr_opcode opcode, std::uint64_t id, std::size_t offset, std::uint32_t length,
                   const Address& peer, std::size_t remote_offset) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = peer.buffer + remote_offset;
  request.wr.rdma.rkey = peer.rkey;
  return post(request, {element(offset, length)});
}

std::optional<ibv_wc> Endpoint::wait(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  ibv_wc completion{};
  do {
    if (ibv_poll_cq(cq.get(), 1, &completion) == 1) return completion;
    ::sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

std::optional<ibv_event_type> Endpoint::wait_event(std::chrono::milliseconds patience) {
  pollfd ready{context->async_fd, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
  ibv_async_event event{};
  if (ibv_get_async_event(context.get(), &event) != 0) return std::nullopt;
  ibv_ack_async_event(&event);
  return event.event_type;
}

ibv_qp_state Endpoint::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp.get(), &attributes, IBV_QP_STATE, &init), 0);
  return attributes.qp_state;
}

Pair::Pair(const Endpoint::Options& a_options, const Endpoint::Options& b_options,
           const Timing& timing)
    : a(a_options), b(b_options) {
  a.connect(b.address(), timing);
  b.connect(a.address(), timing);
}

ibv_wc expect_completion(Endpoint& endpoint, std::uint64_t id, ibv_wc_status status) {
  const std::optional<ibv_wc> completion = endpoint.wait();
  EXPECT_TRUE(completion.has_value()) << "no completion for " << id;
  if (!completion) return {};
  EXPECT_EQ(completion->wr_id, id);
  EXPECT_EQ(completion->status, status) << ibv_wc_status_str(completion->status);
  EXPECT_EQ(completion->qp_num, endpoint.qp->qp_num);
  return *completion;
}

unsigned live_objects(const char* kind) {
  return plugin_function<unsigned (*)(const char*)>("hbmwire_nic_live_objects")(kind);
}

long fail_nth_call(long n, int error_number) {
  return plugin_function<long (*)(long, int)>("hbmwire_nic_fail_nth_call")(n, error_number);
}

std::uint64_t copied_bytes() {
  return plugin_function<unsigned long long (*)()>("hbmwire_nic_copied_bytes")();
}

}  // namespace hbmwire::test
