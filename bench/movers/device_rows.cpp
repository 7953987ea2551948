// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "hbmwire/memory_domain.hpp"

#include "bench/endpoint/two_processes.hpp"
#include "bench/movers/memory_end.hpp"
#include "bench/movers/rows.hpp"

/// Rows of a device's memory that is put into another process's: with a NIC that reaches the
/// memory, and with one that does not.
namespace hbmwire::bench {
namespace {

constexpr MemoryType kDevice = MemoryType::gaudi;
// The memory of one end: on kNic, which reaches the device; on kPlainNic, which does not; without a
// NIC ("none").
constexpr Holding kReached{kNic, kDevice};
constexpr Holding kStaged{kPlainNic, kDevice};
constexpr Holding kHost{kNic, MemoryType::host};
constexpr Holding kGpu{kPlainNic, MemoryType::cuda};
constexpr Holding kServingGpu{.nic = kPlainNic, .type = MemoryType::cuda, .serves = true};
constexpr Holding kCard{"none", kDevice};
constexpr Holding kServingCard{.nic = "none", .type = MemoryType::cuda, .serves = true};
constexpr Holding kTcpCard{.nic = "none", .type = kDevice, .stages = false};
constexpr Holding kServingTcpCard{
    .nic = "none", .type = MemoryType::cuda, .serves = true, .stages = false};
constexpr Holding kSharedHost{.nic = "none", .type = MemoryType::host, .shared = true};
constexpr Holding kTcpHost{.nic = "none", .type = MemoryType::host};
constexpr Holding kServingTcpHost{.nic = "none", .type = MemoryType::host, .serves = true};
constexpr unsigned kDevicePuts = 5;

/// One end: `kHere` is the memory that it puts, `kThere` the memory at the listening end.
template <const Holding& kHere, const Holding& kThere>
struct End : MemoryEnd {
  explicit End(const Place& place) : MemoryEnd(place, place.listens ? kThere : kHere) {}
};

/// The median of some puts.
template <class Put>
double each_ns(Put put) {
  std::vector<double> times;
  for (unsigned i = 0; i < kDevicePuts; ++i) times.push_back(put());
  return median(std::move(times));
}

/// The device's engine alone: it copies the same bytes to host memory that it reaches.
class Engine {
 public:
  explicit Engine(const Allocation& memory) : memory_(memory), host_(memory.size_bytes()) {
    need(memory_.domain().pin_host(host_));
  }

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  ~Engine() { memory_.domain().unpin_host(host_); }

  /// Lets the engine's threads begin, and so stay, on the second CPU.
  void begin() {
    const OnSecondCpu engine;
    copy_ns();
  }

  double copy_ns() {
    const double before = now_ns();
    PendingCopy copy =
        need(memory_.domain().start_copy_out(memory_.address(), std::span<std::byte>(host_)));
    while (!need(copy.poll())) continue;
    return now_ns() - before;
  }

 private:
  const Allocation& memory_;
  std::vector<std::byte> host_;
};

class Staging final : public TwoProcesses<End<kStaged, kHost>, NoEnd, Sleep> {
 public:
  Staging(const Effort& /*effort*/, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)), engine_(our_end().memory()) {
    our_end().begin_engine(Path::staged);
    engine_.begin();
  }

  double ours() override {
    return each_ns([&] { return our_end().put_ns(Path::staged); });
  }

  // A staged put overlaps the engine's copies with the NIC's, so it can be as fast as the slower of
  // the two.
  double theirs() override {
    return std::max(each_ns([&] { return engine_.copy_ns(); }),
                    each_ns([&] { return our_end().host_put_ns(); }));
  }

 private:
  Engine engine_;
};

class Gain final : public TwoProcesses<End<kReached, kHost>, End<kStaged, kHost>, Sleep> {
 public:
  Gain(const Effort& /*effort*/, std::shared_ptr<Peer> peer)
      : TwoProcesses(Kind::private_pages, kWord, std::move(peer)) {
    their_end().begin_engine(Path::staged);
  }

  double ours() override {
    return each_ns([&] { return our_end().put_ns(Path::nic_loopback); });
  }

  double theirs() override {
    return each_ns([&] { return their_end().put_ns(Path::staged); });
  }
};

/// For IPC. The peer's progress thread has begun on the second CPU. The peer's first copy begins
/// its engine's threads on the first CPU, to which allocate() has moved this thread: the process
/// that puts sleeps there meanwhile.
struct IpcEnd : End<kGpu, kServingGpu> {
  explicit IpcEnd(const Place& place) : End(place) {
    std::byte word{};
    const Wait patience{std::chrono::seconds(20)};
    if (place.listens) need(memory().domain().copy_in(memory().address(), {&word, 1}, patience));
  }
};

/// Between two processes of a node without a NIC: through memory that both have mapped, against
/// TCP.
template <class Ours, Path kPath, class Theirs>
class WithoutANic final : public TwoProcesses<Ours, Theirs, Sleep> {
 public:
  WithoutANic(const Effort& /*effort*/, std::shared_ptr<Peer> peer)
      : TwoProcesses<Ours, Theirs, Sleep>(Kind::private_pages, kWord, std::move(peer)) {
    this->our_end().begin_engine(kPath);
    this->their_end().begin_engine(Path::tcp);
  }

  double ours() override {
    return each_ns([&] { return this->our_end().put_ns(kPath); });
  }

  double theirs() override {
    return each_ns([&] { return this->their_end().put_ns(Path::tcp); });
  }
};

using BetweenCards =
    WithoutANic<End<kCard, kServingCard>, Path::staged, End<kTcpCard, kServingTcpCard>>;
using BetweenHosts =
    WithoutANic<End<kSharedHost, kSharedHost>, Path::shared_memory, End<kTcpHost, kServingTcpHost>>;

/// Within a node, against the speed of a CPU.
template <class Ours, Path kPath>
class WithinANode final : public TwoProcesses<Ours, NoEnd, Sleep> {
 public:
  WithinANode(const Effort& /*effort*/, std::shared_ptr<Peer> peer)
      : TwoProcesses<Ours, NoEnd, Sleep>(Kind::private_pages, kWord, std::move(peer)),
        from_(kLarge, std::byte{1}),
        to_(kLarge) {}

  double ours() override {
    return each_ns([&] { return this->our_end().put_ns(kPath); });
  }

  double theirs() override {
    return each_ns([&] {
      const double before = now_ns();
      std::memcpy(to_.data(), from_.data(), kLarge);
      return now_ns() - before;
    });
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

/// Forks the peer now, while the rows are made: TwoProcesses::forked() says why. Each MemoryEnd
/// allocates its own memory, so one word suffices in the Bytes.
template <class Measured>
Row row_of(const char* name, const char* ours, const char* theirs) {
  Row row{.name = name, .ours = ours, .theirs = theirs};
  row.bytes = kLarge;
  row.make = [peer = Measured::forked(Kind::private_pages, kWord)](const Effort& effort) {
    return std::make_unique<Measured>(effort, peer);
  };
  return row;
}

}  // namespace

std::vector<Row> device_rows() {
  Row staged = row_of<Staging>("staged", "16 MiB put, staged", "the slower of engine and wire");
  staged.limit = 0.8;
  Row loopback = row_of<WithinANode<End<kReached, kReached>, Path::nic_loopback>>(
      "loopback", "16 MiB put by the NIC, one node", "memcpy");
  loopback.limit = 0.9;
  Row ipc = row_of<WithinANode<IpcEnd, Path::ipc>>("ipc", "16 MiB put by IPC, one node", "memcpy");
  ipc.limit = 0.9;
  return {
      staged,
      row_of<Gain>("zero-copy", "16 MiB put, zero-copy", "the same, staged"),
      loopback,
      ipc,
      row_of<BetweenCards>("shared", "16 MiB put, staged in one node", "the same by TCP"),
      row_of<BetweenHosts>("host-shared", "16 MiB put of host memory, shared", "the same by TCP")};
}

}  // namespace hbmwire::bench
