// SPDX-License-Identifier: MIT
#include "emulation/nic/transport/remote_atomic.hpp"

#include <cerrno>

namespace hbmwire::emulation::nic {

int remote_atomic(Process& process, const Request& request, const Segment& target,
                  const SegmentList& result) {
  std::uint64_t old = 0;
  SegmentList here;
  here.add(plain_segment(reinterpret_cast<std::uint64_t>(&old), sizeof old));
  SegmentList there;
  there.add(target);
  {
    const Hold guard(process.shared().header.atomics);
    if (!guard.held()) return EBUSY;
    if (const int error = move_bytes(here, there); error != 0) return error;
    std::uint64_t value = old;
    if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      value = old + request.compare_add;
    } else if (old == request.compare_add) {
      value = request.swap;
    }
    SegmentList changed;
    changed.add(plain_segment(reinterpret_cast<std::uint64_t>(&value), sizeof value));
    if (const int error = move_bytes(there, changed); error != 0) return error;
  }
  return move_bytes(result, here);
}

}  // namespace hbmwire::emulation::nic
