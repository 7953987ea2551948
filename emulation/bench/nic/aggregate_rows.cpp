// SPDX-License-Identifier: MIT
#include <sched.h>

#include <deque>
#include <memory>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "emulation/bench/nic/rows.hpp"

/// Compares many queue pairs in turn with one, and many processes at once with one.
namespace hbmwire::bench {
namespace {

constexpr std::uint64_t kLarge = 65536;
constexpr std::uint64_t kSmall = 8;
constexpr unsigned kQueues = 64;
constexpr unsigned kProcesses = 16;

/// Connections of one process to memory that another one shares.
class Client {
 public:
  Client(std::uint64_t bytes, unsigned queues, Line& line)
      : bytes_(bytes), source_(bytes), mr_(node_.register_dmabuf(source_)) {
    for (unsigned i = 0; i < queues; ++i) {
      Queue& queue = queues_.emplace_back(node_);
      line.send(queue.address(0, 0));
      there_.push_back(line.receive<Address>());
      queue.connect(there_.back());
    }
    line.receive<bool>();
  }

  /// Runs the other end of such a client.
  static void serve(const SharedMemory& target, unsigned queues, Line& line) {
    const Node node;
    const MrHandle mr = node.register_dmabuf(target);
    std::deque<Queue> own;
    for (unsigned i = 0; i < queues; ++i) {
      Queue& queue = own.emplace_back(node);
      const auto client = line.receive<Address>();
      line.send(queue.address(target.address(), mr->rkey));
      queue.connect(client);
    }
    line.send(true);
    bool more = false;
    line.next(more);
  }

  /// Posts `count` WRITEs to the first `queues` in turn, each with a CQE.
  void write(unsigned count, std::size_t queues) {
    for (unsigned i = 0; i < count; ++i) {
      Operation operation(IBV_WR_RDMA_WRITE, element_of(source_.address(), bytes_, mr_),
                          there_[next_], IBV_SEND_SIGNALED);
      queues_[next_].post(operation.request);
      queues_[next_].wait_sends(1);
      next_ = (next_ + 1) % queues;
    }
  }

 private:
  std::uint64_t bytes_;
  SharedMemory source_;
  Node node_;
  MrHandle mr_;
  std::deque<Queue> queues_;
  std::vector<Address> there_;
  std::size_t next_ = 0;
};

class ManyQueues final : public Contest {
 public:
  ManyQueues(std::uint64_t bytes, const Effort& effort)
      : chunks_(effort.chunks),
        target_(bytes),
        peer_(Cpus::allowed().second,
              [this](Line& line) { Client::serve(target_, kQueues, line); }),
        client_(bytes, kQueues, peer_.line()) {
    pin(Cpus::allowed().first);
  }

  double ours() override { return timed(kQueues); }

  double theirs() override { return timed(1); }

 private:
  double timed(std::size_t queues) {
    client_.write(1, queues);
    return median_ns(chunks_, [&] { client_.write(kQueues, queues); }) / kQueues;
  }

  unsigned chunks_;
  SharedMemory target_;
  Peer peer_;
  Client client_;
};

/// Many processes, on both CPUs in turn, each with a server that sleeps. It measures the CPU time
/// of an operation, because the kernel decides how much time each process gets.
class ManyProcesses final : public Contest {
 public:
  ManyProcesses(std::uint64_t bytes, const Effort& effort)
      : writes_((bytes == kSmall ? 50'000U : 500U) / (effort.quick ? 100U : 1U)) {
    const Cpus cpus = Cpus::allowed();
    for (unsigned i = 0; i < kProcesses; ++i) {
      workers_.push_back(std::make_unique<Peer>(
          i % 2 == 0 ? cpus.first : cpus.second,
          [=, this](Line& line) { work(bytes, i % 2 == 0 ? cpus.second : cpus.first, line); }));
      workers_.back()->line().receive<bool>();
    }
    pin(cpus.first);
  }

  double ours() override {
    for (const auto& worker : workers_) worker->line().send(writes_);
    double sum = 0;
    for (const auto& worker : workers_) sum += worker->line().receive<double>();
    return sum / kProcesses;
  }

  /// One process on each CPU, because the CPUs of a virtual machine differ.
  double theirs() override { return (alone(*workers_[0]) + alone(*workers_[1])) / 2; }

 private:
  [[nodiscard]] double alone(Peer& worker) const {
    worker.line().send(writes_ * 4);  // the other processes don't run, so there is time for more
    return worker.line().receive<double>();
  }

  static void work(std::uint64_t bytes, int other_cpu, Line& line) {
    const SharedMemory target(bytes);
    Peer server(other_cpu, [&](Line& to) { Client::serve(target, 1, to); });
    Client client(bytes, 1, server.line());
    line.send(true);
    unsigned count = 0;
    while (line.next(count)) {
      const double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      client.write(count, 1);
      line.send((clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / count);
    }
  }

  unsigned writes_;
  std::vector<std::unique_ptr<Peer>> workers_;
};

template <typename Kind>
Row row(Row described, std::uint64_t bytes) {
  if (bytes == kLarge) described.bytes = bytes;
  described.make = [bytes](const Effort& effort) { return std::make_unique<Kind>(bytes, effort); };
  return described;
}

}  // namespace

std::vector<Row> aggregate_rows() {
  const auto higher = Better::higher;
  return {
      row<ManyQueues>({"queues-64k", "64 QPs, 64 KiB WRITEs", "one QP", higher, 0.8, 0.95}, kLarge),
      row<ManyQueues>({"queues-8", "64 QPs, 8 B WRITEs", "one QP", higher, 0.8, 0.95}, kSmall),
      row<ManyProcesses>({"processes-64k", "16 processes, 64 KiB", "one", higher, 0.8, 0.95},
                         kLarge),
      row<ManyProcesses>({"processes-8", "16 processes, 8 B", "one", higher, 0.8, 0.95}, kSmall),
  };
}

}  // namespace hbmwire::bench
