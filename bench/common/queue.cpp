// SPDX-License-Identifier: MIT
#include "bench/common/queue.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string>

#include "bench/common/peer.hpp"

namespace hbmwire::bench {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::uint8_t kPort = 1;

template <typename T>
T* need(T* object, const char* call) {
  if (object == nullptr) fail(call);
  return object;
}

/// The last GID in the table: RoCE v2 over IPv4, for a NIC with an address.
int last_gid(ibv_context* context, ibv_gid& gid) {
  int index = -1;
  // RoCE tables have few entries. The query of an entry that is not there fails.
  for (int i = 0; i < 16; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, kPort, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
    gid = entry.gid;
    index = i;
  }
  if (index < 0) throw std::runtime_error("the NIC's port 1 has no GID");
  return index;
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : fd_(::memfd_create("bench", MFD_CLOEXEC)) {
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("memfd");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (memory == MAP_FAILED) fail("mmap");
  data_ = static_cast<std::byte*>(memory);
  size_ = bytes;
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, size_);
  ::close(fd_);
}

Node::Node() {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) throw std::runtime_error("this machine has no RDMA device");
  context_.reset(ibv_open_device(devices[0]));
  ibv_free_device_list(devices);
  need(context_.get(), "ibv_open_device");
  pd_.reset(need(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
}

MrHandle Node::register_dmabuf(const SharedMemory& memory) const {
  return MrHandle(
      need(ibv_reg_dmabuf_mr(pd(), 0, memory.size(), memory.address(), memory.fd(), kAccess),
           "ibv_reg_dmabuf_mr"));
}

MrHandle Node::register_private(void* address, std::size_t bytes) const {
  // The parentheses avoid the macro of verbs.h, which converts the flags' sign.
  return MrHandle(need((ibv_reg_mr)(pd(), address, bytes, kAccess), "ibv_reg_mr"));
}

Queue::Queue(const Node& node, bool with_channel) {
  ibv_context* context = node.context();
  if (with_channel)
    channel_.reset(need(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
  const int depth = static_cast<int>(kDepth);
  send_cq_.reset(need(ibv_create_cq(context, depth, nullptr, nullptr, 0), "ibv_create_cq"));
  receive_cq_.reset(
      need(ibv_create_cq(context, depth, nullptr, channel_.get(), 0), "ibv_create_cq"));
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = send_cq_.get();
  init.recv_cq = receive_cq_.get();
  // Sends, receives, elements of a send, elements of a receive, inline bytes.
  init.cap = {kDepth, kDepth, 1, 1, kInlineBytes};
  qp_.reset(need(ibv_create_qp(node.pd(), &init), "ibv_create_qp"));
  to_init(*qp_);
}

void to_init(ibv_qp& qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  check(ibv_modify_qp(&qp, &attributes,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "ibv_modify_qp to INIT");
}

Address address_of(const ibv_qp& qp, std::uint64_t memory, std::uint32_t rkey) {
  Address address;
  last_gid(qp.context, address.gid);
  address.qpn = qp.qp_num;
  address.memory = memory;
  address.rkey = rkey;
  return address;
}

void connect(ibv_qp& qp, const Address& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_4096;
  attributes.dest_qp_num = peer.qpn;
  attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 12;  // 0.64 ms
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.grh.dgid = peer.gid;
  ibv_gid own{};
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(last_gid(qp.context, own));
  attributes.ah_attr.grh.hop_limit = 64;
  check(ibv_modify_qp(&qp, &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        "ibv_modify_qp to RTR");
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;  // 67 ms
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;  // without end
  attributes.max_rd_atomic = 16;
  check(ibv_modify_qp(&qp, &attributes,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
        "ibv_modify_qp to RTS");
}

void Queue::post_receive(ibv_sge& element) {
  ibv_recv_wr request{};
  request.sg_list = &element;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  check(ibv_post_recv(qp_.get(), &request, &bad), "ibv_post_recv");
}

void Queue::arm() { check(ibv_req_notify_cq(receive_cq_.get(), 0), "ibv_req_notify_cq"); }

void Queue::sleep() {
  ibv_cq* cq = nullptr;
  void* cookie = nullptr;
  if (ibv_get_cq_event(channel_.get(), &cq, &cookie) != 0) fail("ibv_get_cq_event");
  ibv_ack_cq_events(cq, 1);
}

void check(int error, const char* call) {
  if (error == 0) return;
  errno = error;
  fail(call);
}

unsigned poll(ibv_cq* cq) {
  std::array<ibv_wc, 16> completions;
  const int count = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
  if (count < 0) throw std::runtime_error("ibv_poll_cq");
  for (int i = 0; i < count; ++i) {
    const ibv_wc_status status = completions[static_cast<std::size_t>(i)].status;
    if (status != IBV_WC_SUCCESS) throw std::runtime_error(ibv_wc_status_str(status));
  }
  return static_cast<unsigned>(count);
}

}  // namespace hbmwire::bench
