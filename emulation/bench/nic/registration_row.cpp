// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include "bench/common/queue.hpp"
#include "bench/common/timing.hpp"
#include "emulation/bench/nic/rows.hpp"

/// Registers, writes to and deregisters a dma-buf that this process has registered before. The time
/// of a WRITE to one that stays registered is subtracted. A kernel driver would pin the pages; here
/// mlock and munlock do that.
namespace hbmwire::bench {
namespace {

constexpr std::size_t kRegisteredBytes = 4U << 20U;

class Registration final : public Contest {
 public:
  explicit Registration(const Effort& effort)
      : chunks_(effort.quick ? effort.chunks : effort.chunks / 4),  // a chunk touches 8 MiB
        source_(kRegisteredBytes),
        target_(kRegisteredBytes),
        locked_(kRegisteredBytes),
        source_mr_(node_.register_dmabuf(source_)),
        a_(node_),
        b_(node_) {
    a_.connect(b_.address(0, 0));
    b_.connect(a_.address(0, 0));
    pin(Cpus::allowed().first);
  }

  double ours() override {
    {
      const MrHandle kept = node_.register_dmabuf(target_);
      write(kept);
      written_ns_ = median_ns(chunks_, [&] { write(kept); });
    }
    const double whole_ns = median_ns(chunks_, [this] { write(node_.register_dmabuf(target_)); });
    return std::max(1.0, whole_ns - written_ns_);
  }

  double theirs() override {
    return median_ns(chunks_, [this] {
      if (::mlock(locked_.data(), kRegisteredBytes) != 0) fail("mlock (ulimit -l)");
      ::munlock(locked_.data(), kRegisteredBytes);
    });
  }

 private:
  void write(const MrHandle& target) {
    Operation operation(IBV_WR_RDMA_WRITE,
                        element_of(source_.address(), kRegisteredBytes, source_mr_),
                        b_.address(target_.address(), target->rkey), IBV_SEND_SIGNALED);
    a_.post(operation.request);
    a_.wait_sends(1);
  }

  unsigned chunks_;
  double written_ns_ = 0;
  SharedMemory source_;
  SharedMemory target_;
  SharedMemory locked_;
  Node node_;
  MrHandle source_mr_;
  Queue a_;
  Queue b_;
};

}  // namespace

std::vector<Row> registration_rows() {
  Row row{"register", "register 4 MiB again, touch all", "mlock, munlock", Better::lower, 0.7,
          0.02};
  row.make = [](const Effort& effort) { return std::make_unique<Registration>(effort); };
  return {row};
}

}  // namespace hbmwire::bench
