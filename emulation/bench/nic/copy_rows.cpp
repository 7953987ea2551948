// SPDX-License-Identifier: MIT
#include <sys/mman.h>
#include <sys/uio.h>

#include <cstring>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "emulation/bench/nic/rows.hpp"

/// One process moves bytes to or from the memory of another one, which sleeps meanwhile.
namespace hbmwire::bench {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

/// The operation that a row's own is compared with.
enum class Against : std::uint8_t { memcpy, process_vm_writev, write };

struct Plan {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  Against against = Against::memcpy;
  std::uint64_t bytes = kMiB;
  std::uint64_t footprint = kMiB;  // bytes of the source and of the target that are stepped through
  bool private_target = false;     // memory private to the peer; false: memory that can be shared
  unsigned burst = 1;              // operations for each completion
};

class Copy final : public Contest {
 public:
  Copy(const Plan& plan, const Effort& effort)
      : plan_(plan),
        chunks_(effort.chunks),
        source_(plan.footprint),
        target_(plan.private_target ? 4096 : plan.footprint),
        peer_(Cpus::allowed().second, [this](Line& line) { serve(line); }),
        mr_(plan.private_target ? node_.register_private(source_.data(), source_.size())
                                : node_.register_dmabuf(source_)),
        queue_(node_) {
    std::memset(source_.data(), 0x5a, source_.size());
    peer_.line().send(queue_.address(0, 0));
    there_ = peer_.line().receive<Address>();
    queue_.connect(there_);
    peer_.line().receive<bool>();
    pin(Cpus::allowed().first);
  }

  double ours() override { return transfer(plan_.opcode); }

  double theirs() override {
    if (plan_.against == Against::write) return transfer(IBV_WR_RDMA_WRITE);
    return timed([this](std::uint64_t offset, bool /*last*/) {
      if (plan_.against == Against::memcpy) {
        std::memcpy(target_.data() + offset, source_.data() + offset, plan_.bytes);
      } else {
        write_to_peer(offset);
      }
    });
  }

 private:
  void serve(Line& line) const {
    const Node node;
    Queue queue(node);
    const std::size_t bytes = plan_.footprint;
    void* own = plan_.private_target ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)
                                     : target_.data();
    const MrHandle mr =
        plan_.private_target ? node.register_private(own, bytes) : node.register_dmabuf(target_);
    const auto peer = line.receive<Address>();
    line.send(queue.address(reinterpret_cast<std::uint64_t>(own), mr->rkey));
    queue.connect(peer);
    line.send(true);
    bool more = false;
    line.next(more);  // keeps the memory and the queue pair until the other process is done
  }

  void write_to_peer(std::uint64_t offset) {
    const iovec here{source_.data() + offset, plan_.bytes};
    // An address in the peer.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const iovec there{reinterpret_cast<void*>(there_.memory + offset), plan_.bytes};
    if (::process_vm_writev(peer_.pid(), &here, 1, &there, 1, 0) !=
        static_cast<ssize_t>(plan_.bytes))
      fail("process_vm_writev");
  }

  /// Each slice continues where the last one stopped, so that data is not found in a cache if the
  /// footprint is larger than that cache.
  template <typename Body>
  double timed(Body operation) {
    const double chunk = median_ns(chunks_, [&] {
      std::uint64_t offset = offset_;
      for (unsigned left = plan_.burst; left != 0; --left) {
        operation(offset, left == 1);
        offset += plan_.bytes;
        if (offset == plan_.footprint) offset = 0;
      }
      offset_ = offset;
    });
    return chunk / plan_.burst;
  }

  double transfer(ibv_wr_opcode opcode) {
    Operation operation(opcode, element_of(source_.address(), plan_.bytes, mr_), there_, 0);
    return timed([&](std::uint64_t offset, bool last) {
      operation.element.addr = source_.address() + offset;
      operation.request.wr.rdma.remote_addr = there_.memory + offset;
      operation.request.send_flags = last ? IBV_SEND_SIGNALED : 0;
      queue_.post(operation.request);
      if (last) queue_.wait_sends(1);
    });
  }

  Plan plan_;
  unsigned chunks_;
  std::uint64_t offset_ = 0;
  SharedMemory source_;
  SharedMemory target_;  // unused, and only a page, if the target is private to the peer
  Peer peer_;
  Node node_;
  MrHandle mr_;
  Queue queue_;
  Address there_;
};

Row copy_row(Row described, const Plan& plan) {
  described.bytes = plan.bytes;
  described.make = [plan](const Effort& effort) { return std::make_unique<Copy>(plan, effort); };
  return described;
}

}  // namespace

std::vector<Row> copy_rows() {
  const Plan hot;
  Plan cold;
  cold.footprint = 256 * kMiB;
  Plan small;
  small.bytes = small.footprint = 4096;
  small.burst = 16;
  Plan foreign;
  foreign.bytes = foreign.footprint = 65536;
  foreign.private_target = true;
  foreign.against = Against::process_vm_writev;
  Plan read = hot;
  Plan foreign_read = foreign;
  read.opcode = foreign_read.opcode = IBV_WR_RDMA_READ;
  read.against = foreign_read.against = Against::write;
  const auto higher = Better::higher;
  return {
      copy_row({"write-hot", "WRITE 1 MiB, shared, hot", "memcpy", higher, 0.97, 1.08}, hot),
      copy_row({"write-cold", "WRITE 1 MiB, through 256 MiB", "memcpy", higher, 1.0, 1.2}, cold),
      copy_row({"write-4k", "WRITE 4 KiB, shared, hot", "memcpy", higher, 0.8, 1.0}, small),
      copy_row({"write-private", "WRITE 64 KiB, private", "process_vm_writev", higher, 0.95, {}},
               foreign),
      copy_row({"read-hot", "READ 1 MiB, shared, hot", "WRITE of it", higher, 0.98, {}}, read),
      copy_row({"read-private", "READ 64 KiB, private", "WRITE of it", higher, 0.98, {}},
               foreign_read),
  };
}

}  // namespace hbmwire::bench
