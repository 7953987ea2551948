// SPDX-License-Identifier: MIT
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "emulation/bench/nic/rows.hpp"

/// Compares the CPU time for each of many queue pairs with that for each of fewer. Every queue pair
/// has its own completion queue and is connected to another one of this process.
namespace hbmwire::bench {
namespace {

constexpr unsigned kFew = 100;
constexpr std::uint64_t kWordBytes = 8;
constexpr unsigned kFirstPsn = 1;

enum class Stage : std::uint8_t { create, connect, write, destroy };

/// The CPU time in ns that each stage takes for one queue pair.
struct StageTimes {
  double create = 0;
  double connect = 0;
  double write = 0;
  double destroy = 0;
};

void must(int error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string(call) + ": " + std::to_string(error));
}

class Crowd {
 public:
  Crowd() : memory_(2 * kWordBytes), mr_(node_.register_private(memory_.data(), memory_.size())) {
    must(ibv_query_gid(node_.context(), 1, 0, &gid_), "ibv_query_gid");
  }

  StageTimes measure(unsigned count) {
    StageTimes times;
    times.create = ns_of_one(count, [&] {
      for (unsigned i = 0; i < count; ++i) create();
    });
    times.connect = ns_of_one(count, [&] {
      for (unsigned i = 0; i < count; ++i) connect(i);
    });
    write_round(count);  // the first WRITE of a connection looks up what it needs
    times.write = ns_of_one(count, [&] { write_round(count); });
    times.destroy = ns_of_one(count, [&] {
      qps_.clear();
      cqs_.clear();
    });
    return times;
  }

 private:
  /// The CPU time of `act`, which handles `count` queue pairs, divided by their number.
  template <typename Act>
  static double ns_of_one(unsigned count, Act act) {
    const double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    act();
    return (clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / count;
  }

  void create() {
    constexpr int kEntries = 16;
    cqs_.emplace_back(ibv_create_cq(node_.context(), kEntries, nullptr, nullptr, 0));
    if (!cqs_.back()) fail("ibv_create_cq");
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cqs_.back().get();
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {kEntries / 2, kEntries / 2, 1, 1, 0};
    qps_.emplace_back(ibv_create_qp(node_.pd(), &wanted));
    if (!qps_.back()) fail("ibv_create_qp");
  }

  void connect(unsigned index) {
    ibv_qp* const qp = qps_[index].get();
    ibv_qp_attr values{};
    values.qp_state = IBV_QPS_INIT;
    values.port_num = 1;
    values.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    must(ibv_modify_qp(qp, &values,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "ibv_modify_qp to INIT");
    values.qp_state = IBV_QPS_RTR;
    values.path_mtu = IBV_MTU_4096;
    values.dest_qp_num = qps_[index ^ 1U]->qp_num;  // 0 with 1, 2 with 3, and so on
    values.rq_psn = values.sq_psn = kFirstPsn;
    values.ah_attr.is_global = 1;
    values.ah_attr.port_num = 1;
    values.ah_attr.grh.dgid = gid_;
    values.ah_attr.grh.hop_limit = 1;
    must(ibv_modify_qp(qp, &values,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "ibv_modify_qp to RTR");
    values.qp_state = IBV_QPS_RTS;
    values.timeout = 14;  // 67 ms
    values.retry_cnt = values.rnr_retry = 7;
    must(ibv_modify_qp(qp, &values,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "ibv_modify_qp to RTS");
  }

  void write_round(unsigned count) {
    const auto address = reinterpret_cast<std::uint64_t>(memory_.data());
    Operation operation(IBV_WR_RDMA_WRITE, element_of(address, kWordBytes, mr_),
                        {.memory = address + kWordBytes, .rkey = mr_->rkey}, IBV_SEND_SIGNALED);
    for (unsigned i = 0; i < count; ++i) {
      ibv_send_wr* bad = nullptr;
      must(ibv_post_send(qps_[i].get(), &operation.request, &bad), "ibv_post_send");
      ibv_wc done{};
      while (ibv_poll_cq(cqs_[i].get(), 1, &done) == 0) {
      }
      must(done.status, "a WRITE's completion");
    }
  }

  Node node_;
  std::vector<std::byte> memory_;
  MrHandle mr_;
  ibv_gid gid_{};
  std::vector<CqHandle> cqs_;
  std::vector<QpHandle> qps_;
};

class Many final : public Contest {
 public:
  Many(unsigned count, unsigned few, Stage stage, const Effort& effort)
      : count_(effort.quick ? 2 * kFew : count), few_(effort.quick ? kFew : few), stage_(stage) {
    pin(Cpus::allowed().first);
  }

  double ours() override {
    constexpr unsigned kCycles = 3;
    return median_of(count_, kCycles);
  }

  /// Measures as many queue pairs in total as one cycle of ours.
  double theirs() override { return median_of(few_, count_ / few_); }

 private:
  double median_of(unsigned count, unsigned cycles) {
    std::vector<double> all;
    for (unsigned i = 0; i < cycles; ++i) all.push_back(of_stage(crowd_.measure(count)));
    return median(all);
  }

  [[nodiscard]] double of_stage(const StageTimes& times) const {
    switch (stage_) {
      case Stage::create:
        return times.create;
      case Stage::connect:
        return times.connect;
      case Stage::write:
        return times.write;
      default:
        return times.destroy;
    }
  }

  unsigned count_;
  unsigned few_;
  Stage stage_;
  Crowd crowd_;
};

struct Numbers {
  unsigned many;
  unsigned few;
};

Row many_row(const char* stage_name, Numbers numbers, Stage stage, const char* what, double limit) {
  const std::string many = std::to_string(numbers.many);
  Row described{"many-" + many + "-" + stage_name, std::string(what) + " of " + many + " QPs",
                "of " + std::to_string(numbers.few), Better::lower, limit};
  described.make = [numbers, stage](const Effort& effort) {
    return std::make_unique<Many>(numbers.many, numbers.few, stage, effort);
  };
  return described;
}

}  // namespace

/// A hundred queue pairs fit into the cache next to a core; a thousand do not.
std::vector<Row> many_rows() {
  constexpr Numbers kBeyondCaches{1000, kFew};
  constexpr Numbers kMost{5000, 1000};
  return {
      many_row("create", kBeyondCaches, Stage::create, "create one", 2),
      many_row("connect", kBeyondCaches, Stage::connect, "connect one", 2),
      many_row("write", kBeyondCaches, Stage::write, "8 B WRITE on one", 3),
      many_row("destroy", kBeyondCaches, Stage::destroy, "destroy one", 2),
      many_row("create", kMost, Stage::create, "create one", 1.5),
      many_row("connect", kMost, Stage::connect, "connect one", 2.5),
      many_row("write", kMost, Stage::write, "8 B WRITE on one", 3.5),
      many_row("destroy", kMost, Stage::destroy, "destroy one", 2.5),
  };
}

}  // namespace hbmwire::bench
