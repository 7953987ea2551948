// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {

/// Holds Header::allocation, or not (Hold). A holder that died may have lost a block of the ring
/// heap, or a record that its table counts as used and no object has: the next holder finds them.
class [[nodiscard]] Allocation : public Hold {
 public:
  explicit Allocation(Process& process) : Hold(process.shared().header.allocation) {
    if (inherited()) repair(process);
  }

  Allocation(Process& process, WithoutWaiting no) : Hold(process.shared().header.allocation, no) {
    if (inherited()) repair(process);
  }

 private:
  static void repair(Process& process);
};

/// What gives a record back at the end of its life. `release` is called with Header::allocation
/// held: now, or once the process that was stopped with it goes on.
template <typename Release>
void release_record(Process& process, Release release) {
  {
    const Allocation guard(process);
    if (guard.held()) {
      release();
      return;
    }
  }
  process.owe([&process, release] {
    const Allocation guard(process, WithoutWaiting{});
    if (guard.held()) release();
    return guard.held();
  });
}

}  // namespace hbmwire::emulation::nic
