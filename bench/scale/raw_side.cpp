// SPDX-License-Identifier: MIT
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>

#include "bench/common/queue.hpp"
#include "bench/scale/side.hpp"

namespace hbmwire::bench {
namespace {

// Two queue pairs for each connection, as hbmwire has (docs/adr/0018-two-lanes-an-endpoint.md).
constexpr std::size_t kPairs = 2;
// As many sends as hbmwire's lanes take by default, and a completion queue that is long enough for
// all of them, as hbmwire's must be. A program that posts at most kInFlight on all of its queue
// pairs together could use a shorter completion queue, which is faster: docs/scale.md has both.
constexpr std::array<std::uint32_t, kPairs> kDepths = {128, 2};
constexpr std::size_t kSends = kDepths[0] + kDepths[1];

/// The queue pairs of one connection.
using Addresses = std::array<Address, kPairs>;

/// The part that both processes have: a NIC, a page, and queue pairs that share a completion queue.
class RawBase {
 public:
  explicit RawBase(std::size_t sends)
      : memory_(4096),
        mr_(node_.register_dmabuf(memory_)),
        completions_(ibv_create_cq(node_.context(), entries(sends), nullptr, nullptr, 0)) {
    if (completions_ == nullptr) fail("ibv_create_cq");
  }

  [[nodiscard]] ibv_sge element() const { return element_of(memory_.address(), 8, mr_); }

  [[nodiscard]] ibv_cq* completions() const { return completions_.get(); }

  [[nodiscard]] ibv_qp* pair(std::size_t connection) const {
    return pairs_[connection * kPairs].get();
  }

  [[nodiscard]] std::size_t connections() const { return pairs_.size() / kPairs; }

  Addresses create() {
    Addresses made;
    for (std::size_t i = 0; i < kPairs; ++i) {
      ibv_qp_init_attr attributes{};
      attributes.send_cq = completions_.get();
      attributes.recv_cq = completions_.get();
      attributes.qp_type = IBV_QPT_RC;
      attributes.cap = {.max_send_wr = kDepths[i],
                        .max_recv_wr = 1,
                        .max_send_sge = 1,
                        .max_recv_sge = 1,
                        .max_inline_data = 64};
      pairs_.emplace_back(ibv_create_qp(node_.pd(), &attributes));
      if (pairs_.back() == nullptr) fail("ibv_create_qp");
      to_init(*pairs_.back());
      made[i] = address_of(*pairs_.back(), memory_.address(), mr_->rkey);
    }
    return made;
  }

  /// Connects the queue pairs that were created last.
  void connect(const Addresses& peers) {
    for (std::size_t i = 0; i < kPairs; ++i)
      bench::connect(*pairs_[pairs_.size() - kPairs + i], peers[i]);
  }

  void close(std::size_t connection) {
    for (std::size_t i = 0; i < kPairs; ++i) pairs_[connection * kPairs + i].reset();
  }

 private:
  /// At most as many as the NIC allows.
  [[nodiscard]] int entries(std::size_t sends) const {
    ibv_device_attr limits{};
    check(ibv_query_device(node_.context(), &limits), "ibv_query_device");
    return static_cast<int>(std::min(sends, static_cast<std::size_t>(limits.max_cqe)));
  }

  Node node_;
  SharedMemory memory_;
  MrHandle mr_;
  CqHandle completions_;
  std::vector<QpHandle> pairs_;
};

/// Makes a connection whenever the other process writes the addresses of its queue pairs.
class RawServer : public Server {
 public:
  explicit RawServer(Line& line) : base_(kSends), line_(line) {}

  void progress() override {
    if (!line_.is_readable()) return;
    const auto peers = line_.receive<Addresses>();
    line_.send(base_.create());
    base_.connect(peers);
    line_.send(true);
  }

  [[nodiscard]] std::size_t connections() const override { return base_.connections(); }

 private:
  RawBase base_;
  Line& line_;
};

class RawSide : public Side {
 public:
  RawSide(Line& line, std::size_t connections)
      : base_(connections * kSends), line_(line), element_(base_.element()) {
    request_.sg_list = &element_;
    request_.num_sge = 1;
    request_.opcode = IBV_WR_RDMA_WRITE;
    request_.send_flags = IBV_SEND_SIGNALED;
  }

  void connect() override {
    line_.send(base_.create());
    const auto peers = line_.receive<Addresses>();
    base_.connect(peers);
    line_.receive<bool>();
    request_.wr.rdma.remote_addr = peers[0].memory;
    request_.wr.rdma.rkey = peers[0].rkey;
  }

  void put(std::size_t connection) override {
    while (under_way_ == kInFlight) progress();
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(base_.pair(connection), &request_, &bad), "ibv_post_send");
    ++under_way_;
  }

  void finish() override {
    while (under_way_ != 0) progress();
  }

  void progress() override { under_way_ -= poll(base_.completions()); }

  void close(std::size_t connection) override { base_.close(connection); }

 private:
  RawBase base_;
  Line& line_;
  ibv_sge element_;
  ibv_send_wr request_{};
  std::size_t under_way_ = 0;
};

}  // namespace

Library raw_library() {
  return {.name = "raw verbs",
          .serve = [](Line& line) { return std::make_unique<RawServer>(line); },
          .begin =
              [](Line& line, std::size_t connections) {
                return std::make_unique<RawSide>(line, connections);
              }};
}

}  // namespace hbmwire::bench
