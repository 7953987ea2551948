// SPDX-License-Identifier: MIT
#include <infiniband/verbs.h>

#include <array>

#include "bench/common/queue.hpp"
#include "bench/scale/side.hpp"

namespace hbmwire::bench {
namespace {

// A connection of ours has two queue pairs (docs/adr/0018-two-lanes-an-endpoint.md).
constexpr std::size_t kPairs = 2;
constexpr int kCompletions = 1024;
constexpr std::uint32_t kDepth = 64;

void check_errno(int error, const char* call) {
  if (error == 0) return;
  errno = error;
  fail(call);
}

struct Numbers {
  std::array<std::uint32_t, kPairs> numbers{};
};

struct RawPlace {
  ibv_gid gid{};
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// Both processes have one: a NIC, a page, and queue pairs that share a completion queue.
class RawBase {
 public:
  RawBase()
      : memory_(4096),
        mr_(node_.register_dmabuf(memory_)),
        completions_(ibv_create_cq(node_.context(), kCompletions, nullptr, nullptr, 0)) {
    if (completions_ == nullptr) fail("ibv_create_cq");
    check_errno(ibv_query_gid(node_.context(), 1, 0, &place_.gid), "ibv_query_gid");
    place_.address = memory_.address();
    place_.key = mr_->rkey;
  }

  [[nodiscard]] const RawPlace& place() const { return place_; }

  [[nodiscard]] ibv_sge element() const { return element_of(place_.address, 8, mr_); }

  [[nodiscard]] ibv_cq* completions() const { return completions_.get(); }

  [[nodiscard]] ibv_qp* pair(std::size_t connection) const {
    return pairs_[connection * kPairs].get();
  }

  [[nodiscard]] std::size_t connections() const { return pairs_.size() / kPairs; }

  Numbers create() {
    Numbers made;
    for (std::uint32_t& number : made.numbers) {
      ibv_qp_init_attr attributes{};
      attributes.send_cq = completions_.get();
      attributes.recv_cq = completions_.get();
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap = {.max_send_wr = kDepth,
                        .max_recv_wr = 1,
                        .max_send_sge = 1,
                        .max_recv_sge = 1,
                        .max_inline_data = 64};
      pairs_.emplace_back(ibv_create_qp(node_.pd(), &attributes));
      if (pairs_.back() == nullptr) fail("ibv_create_qp");
      number = pairs_.back()->qp_num;
    }
    return made;
  }

  /// The queue pairs that were created last.
  void connect(const Numbers& peers, const RawPlace& there) {
    for (std::size_t i = 0; i < kPairs; ++i)
      connect(*pairs_[pairs_.size() - kPairs + i], peers.numbers[i], there);
  }

  void close(std::size_t connection) {
    for (std::size_t i = 0; i < kPairs; ++i) pairs_[connection * kPairs + i].reset();
  }

 private:
  static void connect(ibv_qp& pair, std::uint32_t peer, const RawPlace& there) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    check_errno(ibv_modify_qp(&pair, &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                "INIT");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_1024;
    attributes.dest_qp_num = peer;
    attributes.max_dest_rd_atomic = 1;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.dgid = there.gid;
    attributes.ah_attr.grh.hop_limit = 64;
    check_errno(ibv_modify_qp(&pair, &attributes,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                "RTR");
    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    attributes.max_rd_atomic = 1;
    check_errno(ibv_modify_qp(&pair, &attributes,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                "RTS");
  }

  Node node_;
  SharedMemory memory_;
  MrHandle mr_;
  CqHandle completions_;
  std::vector<QpHandle> pairs_;
  RawPlace place_;
};

/// Takes a connection whenever the other process writes the numbers of one.
class RawServer : public Server {
 public:
  explicit RawServer(Line& line) : line_(line) {
    line.send(base_.place());
    there_ = line.receive<RawPlace>();
  }

  void progress() override {
    if (!line_.is_readable()) return;
    const auto peers = line_.receive<Numbers>();
    line_.send(base_.create());
    base_.connect(peers, there_);
    line_.send(true);
  }

  [[nodiscard]] std::size_t connections() const override { return base_.connections(); }

 private:
  RawBase base_;
  Line& line_;
  RawPlace there_;
};

class RawSide : public Side {
 public:
  explicit RawSide(Line& line) : line_(line), there_(line.receive<RawPlace>()) {
    line.send(base_.place());
    element_ = base_.element();
    request_.sg_list = &element_;
    request_.num_sge = 1;
    request_.opcode = IBV_WR_RDMA_WRITE;
    request_.send_flags = IBV_SEND_SIGNALED;
    request_.wr.rdma.remote_addr = there_.address;
    request_.wr.rdma.rkey = there_.key;
  }

  void connect() override {
    line_.send(base_.create());
    base_.connect(line_.receive<Numbers>(), there_);
    line_.receive<bool>();
  }

  void put(std::size_t connection) override {
    while (under_way_ == kInFlight) poll();
    ibv_send_wr* bad = nullptr;
    check_errno(ibv_post_send(base_.pair(connection), &request_, &bad), "ibv_post_send");
    ++under_way_;
  }

  void finish() override {
    while (under_way_ != 0) poll();
  }

  void progress() override { poll(); }

  void close(std::size_t connection) override { base_.close(connection); }

 private:
  void poll() {
    std::array<ibv_wc, 16> done;
    const int count = ibv_poll_cq(base_.completions(), static_cast<int>(done.size()), done.data());
    if (count < 0) fail("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      if (done[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS)
        throw std::runtime_error("a WRITE has failed");
    }
    under_way_ -= static_cast<std::size_t>(count);
  }

  RawBase base_;
  Line& line_;
  RawPlace there_;
  ibv_sge element_{};
  ibv_send_wr request_{};
  std::size_t under_way_ = 0;
};

}  // namespace

Library raw_library() {
  return {.name = "raw verbs",
          .serve = [](Line& line) { return std::make_unique<RawServer>(line); },
          .begin = [](Line& line, std::size_t) { return std::make_unique<RawSide>(line); }};
}

}  // namespace hbmwire::bench
