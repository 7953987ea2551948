// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/common/robust_mutex.hpp"
#include "emulation/nic/state/process.hpp"
#include "emulation/nic/state/ring_heap.hpp"

namespace hbmwire::emulation::nic {

/// Holds Header::allocation, as Hold does: held() says whether it is held. A holder that died may
/// have lost a block of the ring heap, or have left a record that its table counts as used although
/// it belongs to no object. The next holder repairs both.
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

/// Gives a record back when its object ends. Calls `release` with Header::allocation held. If a
/// stopped process holds that lock, the call is put off until the process continues.
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
