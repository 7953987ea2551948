// SPDX-License-Identifier: MIT
#include <atomic>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "bench/common/ucx.hpp"
#include "emulation/bench/nic/rows.hpp"

/// Messages of 8 bytes between processes on two CPUs that both poll. UCX does the same.
namespace hbmwire::bench {
namespace {

constexpr std::uint32_t kBytes = 8;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kOut = kPage / 2;
constexpr unsigned kRoundsOfChunk = 8;

unsigned ucx_iterations(const Effort& effort) { return effort.quick ? 2000 : 100'000; }

/// Half of a round trip, from the median chunk.
double half_round_trip(unsigned chunks, const std::function<void()>& round) {
  return median_ns(chunks,
                   [&] {
                     for (unsigned i = 0; i < kRoundsOfChunk; ++i) round();
                   }) /
         (2 * kRoundsOfChunk);
}

/// One end of a connection to a page of the other process. The peer writes to its first word. This
/// side sends from a word in another cache line.
class Side {
 public:
  Side(const SharedMemory& memory, Line& line)
      : memory_(memory), mr_(node_.register_dmabuf(memory)), queue_(node_) {
    line.send(queue_.address(memory.address(), mr_->rkey));
    peer_ = line.receive<Address>();
  }

  /// When both sides have connected, they may send.
  void connect(Line& line) {
    queue_.connect(peer_);
    for (unsigned i = 0; i < kReceives; ++i) receive();
    line.send(true);
    line.receive<bool>();
  }

  void wait_for(std::uint64_t value) {
    spin_until([&] { return word(0).load(std::memory_order_acquire) == value; });
  }

  void write(std::uint64_t value) {
    word(kOut / kBytes).store(value, std::memory_order_relaxed);
    Operation operation(IBV_WR_RDMA_WRITE, out(), peer_, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    queue_.post(operation.request);
    queue_.wait_sends(1);
  }

  void send() {
    Operation operation(IBV_WR_SEND, out(), peer_, IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    queue_.post(operation.request);
    queue_.wait_sends(1);
  }

  /// Waits for a message. The caller may replace the receive that it took later, because enough
  /// others are posted.
  void wait_for_message() {
    while (arrived_ == 0) spin_until([&] { return (arrived_ = queue_.poll_receives()) != 0; });
    --arrived_;
  }

  void receive() {
    ibv_sge in = element_of(memory_.address(), kBytes, mr_);
    queue_.post_receive(in);
  }

  Queue& queue() { return queue_; }

  [[nodiscard]] const Address& peer() const { return peer_; }

  [[nodiscard]] ibv_sge out() const { return element_of(memory_.address() + kOut, kBytes, mr_); }

 private:
  static constexpr unsigned kReceives = 64;

  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::size_t index) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory_.data())[index]);
  }

  const SharedMemory& memory_;
  Node node_;
  MrHandle mr_;
  Queue queue_;
  Address peer_;
  unsigned arrived_ = 0;
};

/// Both sides of a row that compares the latency between two processes. `echo` answers in the other
/// process, as often as let_answer() allows.
class TwoSides : public Contest {
 protected:
  using Echo = void (*)(Side& side, std::uint64_t round);

  TwoSides(const Effort& effort, Echo echo)
      : effort_(effort),
        here_(kPage),
        there_(kPage),
        peer_(Cpus::allowed().second,
              [this, echo](Line& line) {
                Side side(there_, line);
                side.connect(line);
                std::uint64_t round = 0;
                std::uint64_t until = 0;
                while (line.next(until)) {
                  while (round < until) echo(side, ++round);
                }
              }),
        side_(here_, peer_.line()) {
    side_.connect(peer_.line());
    pin(Cpus::allowed().first);
  }

  /// Lets the other side answer `rounds` more messages.
  void let_answer(std::uint64_t rounds) {
    promised_ += rounds;
    peer_.line().send(promised_);
  }

  /// More chunks than in other rows, because a chunk of small messages takes only microseconds.
  [[nodiscard]] unsigned chunks() const { return effort_.chunks * 5; }

  [[nodiscard]] const Effort& effort() const { return effort_; }

  Side& side() { return side_; }

 private:
  Effort effort_;
  SharedMemory here_;
  SharedMemory there_;
  Peer peer_;
  Side side_;
  std::uint64_t promised_ = 0;
};

class WriteLatency final : public TwoSides {
 public:
  explicit WriteLatency(const Effort& effort)
      : TwoSides(effort, [](Side& side, std::uint64_t round) {
          side.wait_for(round);
          side.write(round);
        }) {}

  double ours() override {
    let_answer(std::uint64_t{chunks()} * kRoundsOfChunk);
    return half_round_trip(chunks(), [this] {
      side().write(++round_);
      side().wait_for(round_);
    });
  }

  double theirs() override {
    return ucx_perftest({"ucp_put_lat", ucx_iterations(effort())}).median_ns;
  }

 private:
  std::uint64_t round_ = 0;
};

class SendLatency final : public TwoSides {
 public:
  explicit SendLatency(const Effort& effort)
      : TwoSides(effort, [](Side& side, std::uint64_t /*round*/) {
          side.wait_for_message();
          side.send();
          side.receive();
        }) {}

  double ours() override {
    let_answer(std::uint64_t{chunks()} * kRoundsOfChunk);
    return half_round_trip(chunks(), [this] {
      side().send();
      side().receive();
      side().wait_for_message();
    });
  }

  double theirs() override { return ucx_perftest({"tag_lat", ucx_iterations(effort())}).median_ns; }
};

/// The other process sleeps, because WRITEs to its memory need no work there.
class WriteRate final : public TwoSides {
 public:
  explicit WriteRate(const Effort& effort) : TwoSides(effort, [](Side&, std::uint64_t) {}) {}

  double ours() override {
    constexpr unsigned kWindow = 64;
    constexpr unsigned kPostsOfChunk = 256;
    Operation operation(IBV_WR_RDMA_WRITE, side().out(), side().peer(),
                        IBV_SEND_INLINE | IBV_SEND_SIGNALED);
    Queue& queue = side().queue();
    unsigned outstanding = 0;
    const double chunk = median_ns(chunks(), [&] {
      for (unsigned i = 0; i < kPostsOfChunk; ++i) {
        queue.post(operation.request);
        if (++outstanding == kWindow) outstanding -= queue.poll_sends();
      }
    });
    queue.wait_sends(outstanding);
    return chunk / kPostsOfChunk;
  }

  /// Uses the average, not the median: UCX times each put, and a time stamp counter that steps by
  /// 10 ns makes each put 10 or 20 ns.
  double theirs() override {
    return ucx_perftest({"ucp_put_bw", ucx_iterations(effort()) * 10}).average_ns;
  }
};

template <typename Kind>
Row latency_row(Row described) {
  described.better = Better::lower;
  described.make = [](const Effort& effort) { return std::make_unique<Kind>(effort); };
  return described;
}

}  // namespace

std::vector<Row> latency_rows() {
  const auto lower = Better::lower;
  return {
      latency_row<WriteLatency>(
          {"write-8", "8 B WRITE until seen", "UCX put_lat", lower, 1.7, 1.25}),
      latency_row<WriteRate>(
          {"write-8-rate", "8 B WRITE with CQE", "UCX put_bw", lower, 1.5, 1.15}),
      latency_row<SendLatency>({"send-8", "8 B SEND to RECV", "UCX tag_lat", lower, 1.1, 0.85}),
  };
}

}  // namespace hbmwire::bench
