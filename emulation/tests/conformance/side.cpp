// SPDX-License-Identifier: MIT
#include "emulation/tests/conformance/side.hpp"

#include <cstring>

namespace hbmwire::conformance {

std::optional<ibv_wc> wait_completion(ibv_cq* cq, std::chrono::milliseconds patience) {
  ibv_wc completion{};
  int found = 0;
  wait_until([&] { return (found = ibv_poll_cq(cq, 1, &completion)) != 0; }, patience);
  EXPECT_GE(found, 0) << "ibv_poll_cq failed";
  if (found != 1) return std::nullopt;
  return completion;
}

Side::Side(const Nic& nic, const SideOptions& side_options)
    : options(side_options),
      buffer(side_options.bytes),
      nic_(nic),
      pd_(side_options.pd == nullptr ? nic.pd() : side_options.pd) {
  mr = nic.make_mr(pd_, buffer.data(), buffer.size(), options.mr_access);
  send_cq = nic.make_cq(options.cq_depth, options.channel, this);
  recv_cq = nic.make_cq(options.cq_depth, options.channel, this);
  if (options.type == IBV_QPT_XRC_RECV) xrcd = nic.make_xrcd();
  if (options.with_srq || options.type == IBV_QPT_XRC_RECV) make_srq();
  if (is_ud()) {
    ibv_ah_attr path = nic.path();
    ah.reset(need(ibv_create_ah(pd_, &path), "ibv_create_ah"));
  }
  qp = make_qp();
}

void Side::make_srq() {
  if (options.type != IBV_QPT_XRC_RECV) {
    ibv_srq_init_attr initial{};
    initial.attr = {options.srq_depth, options.sge, 0};
    srq.reset(need(ibv_create_srq(pd_, &initial), "ibv_create_srq"));
    return;
  }
  ibv_srq_init_attr_ex initial{};
  initial.attr = {options.srq_depth, options.sge, 0};
  initial.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  initial.srq_type = IBV_SRQT_XRC;
  initial.pd = pd_;
  initial.xrcd = xrcd.get();
  initial.cq = recv_cq.get();
  srq.reset(need(ibv_create_srq_ex(nic_.context(), &initial), "ibv_create_srq_ex"));
}

Qp Side::make_qp() {
  ibv_qp_init_attr_ex initial{};
  initial.qp_type = options.type;
  initial.sq_sig_all = options.signal_all ? 1 : 0;
  if (options.type == IBV_QPT_XRC_RECV) {
    initial.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    initial.xrcd = xrcd.get();
    return Qp(need(ibv_create_qp_ex(nic_.context(), &initial), "ibv_create_qp_ex"));
  }
  initial.send_cq = send_cq.get();
  initial.recv_cq = recv_cq.get();
  initial.srq = receive_pool();
  initial.cap = {options.send_depth, options.recv_depth, options.sge, options.sge,
                 options.inline_bytes};
  initial.comp_mask = IBV_QP_INIT_ATTR_PD;
  initial.pd = pd_;
  if (options.type == IBV_QPT_XRC_SEND) {
    initial.recv_cq = nullptr;
    initial.cap.max_recv_wr = initial.cap.max_recv_sge = 0;
  }
  if (options.send_ops != 0) {
    initial.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    initial.send_ops_flags = options.send_ops;
  }
  if (options.send_ops != 0 || options.type == IBV_QPT_XRC_SEND)
    return Qp(need(ibv_create_qp_ex(nic_.context(), &initial), "ibv_create_qp_ex"));
  ibv_qp_init_attr plain{nullptr,     initial.send_cq, initial.recv_cq,   initial.srq,
                         initial.cap, initial.qp_type, initial.sq_sig_all};
  return Qp(need(ibv_create_qp(pd_, &plain), "ibv_create_qp"));
}

Address Side::address() const {
  Address address;
  address.qpn = qp->qp_num;
  address.buffer = reinterpret_cast<std::uint64_t>(buffer.data());
  address.rkey = mr->rkey;
  if (options.type == IBV_QPT_XRC_RECV) {
    EXPECT_EQ(ibv_get_srq_num(srq.get(), &address.srqn), 0);
  }
  return address;
}

ibv_qp_attr Side::attributes(const Address& peer, const Timing& timing) const {
  ibv_qp_attr values{};
  values.port_num = settings().port;
  values.qp_access_flags = options.qp_access;
  values.qkey = kQkey;
  values.path_mtu = nic_.port().active_mtu;
  values.dest_qp_num = peer.qpn;
  // A side's sequence numbers start at the low 16 bits of its QP's number, so both ends know them.
  values.rq_psn = peer.qpn & 0xffffU;
  values.sq_psn = qp->qp_num & 0xffffU;
  values.max_rd_atomic = 1;
  values.max_dest_rd_atomic = 1;
  values.timeout = timing.timeout;
  values.retry_cnt = timing.retry_count;
  values.rnr_retry = timing.rnr_retry;
  values.min_rnr_timer = timing.min_rnr_timer;
  values.ah_attr = nic_.path();
  return values;
}

int Side::modify(ibv_qp_attr values, int mask) { return ibv_modify_qp(qp.get(), &values, mask); }

int Side::to_init() {
  ibv_qp_attr values = attributes({});
  values.qp_state = IBV_QPS_INIT;
  return modify(values, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                            (is_ud() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

int Side::to_rtr(const Address& peer, const Timing& timing) {
  ibv_qp_attr values = attributes(peer, timing);
  values.qp_state = IBV_QPS_RTR;
  int mask = IBV_QP_STATE;
  if (!is_ud()) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (options.type == IBV_QPT_RC || options.type == IBV_QPT_XRC_RECV)
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return modify(values, mask);
}

int Side::to_rts(const Timing& timing) {
  ibv_qp_attr values = attributes({}, timing);
  values.qp_state = IBV_QPS_RTS;
  int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (options.type == IBV_QPT_RC || options.type == IBV_QPT_XRC_SEND)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  if (options.type == IBV_QPT_XRC_RECV) mask |= IBV_QP_TIMEOUT;
  return modify(values, mask);
}

int Side::to(ibv_qp_state state, int mask) {
  ibv_qp_attr values{};
  values.qp_state = state;
  values.en_sqd_async_notify = 1;
  return modify(values, IBV_QP_STATE | mask);
}

void Side::connect(const Address& peer, const Timing& timing) {
  ASSERT_EQ(to_init(), 0) << name_of(options.type) << " to INIT";
  ASSERT_EQ(to_rtr(peer, timing), 0) << name_of(options.type) << " to RTR";
  ASSERT_EQ(to_rts(timing), 0) << name_of(options.type) << " to RTS";
}

ibv_sge Side::element(std::size_t offset, std::uint32_t length) const {
  return {reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
}

ibv_send_wr Side::request(ibv_wr_opcode opcode, std::uint64_t id, const Address& peer,
                          std::size_t remote_offset) const {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (is_ud()) {
    request.wr.ud = {ah.get(), peer.qpn, kQkey};
    return request;
  }
  request.qp_type.xrc.remote_srqn = peer.srqn;
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = peer.buffer + remote_offset;
    request.wr.atomic.rkey = peer.rkey;
  } else {
    request.wr.rdma.remote_addr = peer.buffer + remote_offset;
    request.wr.rdma.rkey = peer.rkey;
  }
  return request;
}

int Side::post(ibv_send_wr request, std::vector<ibv_sge> elements) {
  request.sg_list = elements.data();
  request.num_sge = static_cast<int>(elements.size());
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp.get(), &request, &bad);
}

int Side::receive(std::uint64_t id, std::vector<ibv_sge> elements) {
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = elements.data();
  request.num_sge = static_cast<int>(elements.size());
  ibv_recv_wr* bad = nullptr;
  return receive_pool() != nullptr ? ibv_post_srq_recv(receive_pool(), &request, &bad)
                                   : ibv_post_recv(qp.get(), &request, &bad);
}

ibv_wc Side::expect(const Cq& cq, const char* queue, std::uint64_t id, ibv_wc_status status) {
  const std::optional<ibv_wc> completion = wait_completion(cq.get());
  if (!completion) {
    ADD_FAILURE() << "no completion of " << queue << " " << id << " of the "
                  << name_of(options.type) << " QP within " << kPatience.count() << " ms";
    return {};
  }
  EXPECT_EQ(completion->wr_id, id) << queue << " completed out of order";
  EXPECT_EQ(completion->status, status)
      << queue << " " << id << " completed with \"" << ibv_wc_status_str(completion->status)
      << "\", not with \"" << ibv_wc_status_str(status) << "\"";
  EXPECT_EQ(completion->qp_num, qp->qp_num);
  return *completion;
}

ibv_wc Side::expect_sent(std::uint64_t id, ibv_wc_status status) {
  return expect(send_cq, "send", id, status);
}

ibv_wc Side::expect_received(std::uint64_t id, ibv_wc_status status) {
  return expect(recv_cq, "receive", id, status);
}

void Side::expect_silence(const Cq& cq) const {
  constexpr std::chrono::milliseconds kAWhile{20};
  const std::optional<ibv_wc> completion = wait_completion(cq.get(), kAWhile);
  if (completion)
    ADD_FAILURE() << "work request " << completion->wr_id << " completed with \""
                  << ibv_wc_status_str(completion->status) << "\", which should not complete";
}

ibv_qp_attr Side::query() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  constexpr int kEverything = (1 << 21) - 1;  // from IBV_QP_STATE to IBV_QP_DEST_QPN
  EXPECT_EQ(ibv_query_qp(qp.get(), &attributes, kEverything, &initial), 0) << "ibv_query_qp";
  return attributes;
}

ibv_qp_state Side::state() const { return query().qp_state; }

void Side::fill(std::size_t offset, std::size_t length, unsigned char seed) {
  for (std::size_t at = 0; at < length; ++at)
    buffer.at(offset + at) = static_cast<unsigned char>(seed + at * 7 + at / 251);
}

void Side::expect_filled(std::size_t offset, std::size_t length, unsigned char seed) const {
  for (std::size_t at = 0; at < length; ++at) {
    const auto expected = static_cast<unsigned char>(seed + at * 7 + at / 251);
    if (buffer.at(offset + at) == expected) continue;
    ADD_FAILURE() << "byte " << at << " of " << length << " is " << int{buffer[offset + at]}
                  << ", not " << int{expected};
    return;
  }
}

std::uint64_t* Side::word(std::size_t offset) {
  return reinterpret_cast<std::uint64_t*>(buffer.data() + offset);
}

}  // namespace hbmwire::conformance
