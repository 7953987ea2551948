// SPDX-License-Identifier: MIT
#include "emulation/tests/nic/xrc_side.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace hbmwire::test {
namespace {

constexpr std::uint32_t kPsn = 77;

ibv_qp_attr to_init() {
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_INIT;
  values.port_num = 1;
  values.qp_access_flags = kAllAccess;
  return values;
}

ibv_qp_attr to_rtr(const Address& peer, const Timing& timing) {
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_RTR;
  values.path_mtu = IBV_MTU_1024;
  values.dest_qp_num = peer.qpn;
  values.rq_psn = kPsn;
  values.max_dest_rd_atomic = 4;
  values.min_rnr_timer = timing.min_rnr_timer;
  values.ah_attr.is_global = 1;
  values.ah_attr.port_num = 1;
  values.ah_attr.grh.dgid = peer.gid;
  values.ah_attr.grh.sgid_index = kGidIndex;
  values.ah_attr.grh.hop_limit = 64;
  return values;
}

ibv_qp_attr to_rts(const Timing& timing) {
  ibv_qp_attr values{};
  values.qp_state = IBV_QPS_RTS;
  values.timeout = timing.timeout;
  values.retry_cnt = timing.retry_count;
  values.rnr_retry = timing.rnr_retry;
  values.max_rd_atomic = 4;
  values.sq_psn = kPsn;
  return values;
}

constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

Address address_of(const Context& context, std::uint32_t qpn) {
  Address address;
  address.qpn = qpn;
  ibv_query_gid(context.get(), 1, kGidIndex, &address.gid);
  return address;
}

}  // namespace

DomainFile::DomainFile() {
  std::strcpy(path_, "/tmp/hbmwire-xrcd-XXXXXX");
  fd_ = ::mkstemp(path_);
  if (fd_ < 0) throw std::runtime_error("mkstemp");
}

DomainFile::~DomainFile() {
  ::close(fd_);
  ::unlink(path_);
}

Xrcd open_domain(const Context& context, int fd, int oflags) {
  ibv_xrcd_init_attr init{};
  init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  init.fd = fd;
  init.oflags = oflags;
  return Xrcd(ibv_open_xrcd(context.get(), &init));
}

XrcReceiver::XrcReceiver(int fd, const char* device)
    : buffer(4096),
      context(open_device(device)),
      pd(ibv_alloc_pd(context.get())),
      mr((ibv_reg_mr)(pd.get(), buffer.data(), buffer.size(), kAllAccess)),
      xrcd(open_domain(context, fd, O_CREAT)),
      cq(ibv_create_cq(context.get(), 64, nullptr, nullptr, 0)),
      srq(make_srq()) {
  if (!srq) throw std::runtime_error("no XRC SRQ");
}

Srq XrcReceiver::make_srq() {
  ibv_srq_init_attr_ex init{};
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.attr = {8, 1, 0};
  init.srq_type = IBV_SRQT_XRC;
  init.pd = pd.get();
  init.xrcd = xrcd.get();
  init.cq = cq.get();
  return Srq(ibv_create_srq_ex(context.get(), &init));
}

Qp XrcReceiver::make_qp() const {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = xrcd.get();
  return Qp(ibv_create_qp_ex(context.get(), &init));
}

Qp XrcReceiver::open_qp(std::uint32_t number) const {
  ibv_qp_open_attr open{};
  open.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  open.qp_num = number;
  open.xrcd = xrcd.get();
  open.qp_type = IBV_QPT_XRC_RECV;
  return Qp(ibv_open_qp(context.get(), &open));
}

int XrcReceiver::post(const Srq& to, std::uint64_t id, std::size_t offset, std::uint32_t length) {
  ibv_sge element{reinterpret_cast<std::uint64_t>(buffer.data()) + offset, length, mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(to.get(), &request, &bad);
}

std::optional<ibv_wc> XrcReceiver::wait(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  ibv_wc completion{};
  do {
    if (ibv_poll_cq(cq.get(), 1, &completion) == 1) return completion;
    ::sched_yield();
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

std::optional<ibv_async_event> XrcReceiver::wait_event(std::chrono::milliseconds patience) {
  pollfd ready{context->async_fd, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
  ibv_async_event event{};
  if (ibv_get_async_event(context.get(), &event) != 0) return std::nullopt;
  ibv_ack_async_event(&event);
  return event;
}

std::uint32_t number_of(const Srq& srq) {
  std::uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(srq.get(), &number), 0);
  return number;
}

ibv_qp_state state_of(const Qp& qp) {
  ibv_qp_attr values{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp.get(), &values, IBV_QP_STATE, &init), 0);
  return values.qp_state;
}

XrcSender::XrcSender() {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_SEND;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
  init.pd = base.pd.get();
  init.send_cq = base.cq.get();
  init.cap = {16, 0, 4, 0, 64};
  qp.reset(ibv_create_qp_ex(base.context.get(), &init));
  if (!qp) throw std::runtime_error("no XRC_SEND QP");
}

Address XrcSender::address() const { return address_of(base.context, qp->qp_num); }

void XrcSender::connect(const XrcReceiver& receiver, const Qp& target, const Timing& timing) {
  connect_target(target, address(), timing);
  connect(address_of(receiver.context, target->qp_num), timing);
}

void XrcSender::connect(const Address& there, const Timing& timing) {
  ibv_qp_attr values = to_init();
  ASSERT_EQ(ibv_modify_qp(qp.get(), &values, kInit), 0);
  values = to_rtr(there, timing);
  ASSERT_EQ(ibv_modify_qp(qp.get(), &values, kRtr), 0);
  values = to_rts(timing);
  ASSERT_EQ(ibv_modify_qp(qp.get(), &values,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
            0);
}

int XrcSender::post(ibv_send_wr request, std::uint32_t srq_number, std::uint32_t length) {
  ibv_sge element = base.element(0, length);
  request.sg_list = &element;
  request.num_sge = 1;
  request.send_flags |= IBV_SEND_SIGNALED;
  request.qp_type.xrc.remote_srqn = srq_number;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp.get(), &request, &bad);
}

int XrcSender::send(std::uint64_t id, std::uint32_t srq_number) {
  ibv_send_wr request{};
  request.wr_id = id;
  request.opcode = IBV_WR_SEND;
  return post(request, srq_number);
}

void XrcSender::expect(std::uint64_t id, ibv_wc_status status) {
  const auto completion = base.wait();
  ASSERT_TRUE(completion.has_value()) << "no completion for " << id;
  EXPECT_EQ(completion->wr_id, id);
  EXPECT_EQ(completion->status, status) << ibv_wc_status_str(completion->status);
  EXPECT_EQ(completion->qp_num, qp->qp_num);
}

void connect_target(const Qp& target, const Address& sender, const Timing& timing) {
  ibv_qp_attr values = to_init();
  ASSERT_EQ(ibv_modify_qp(target.get(), &values, kInit), 0);
  values = to_rtr(sender, timing);
  ASSERT_EQ(
      ibv_modify_qp(target.get(), &values, kRtr | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
      0);
  values = to_rts(timing);
  ASSERT_EQ(ibv_modify_qp(target.get(), &values, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN), 0);
}

}  // namespace hbmwire::test
