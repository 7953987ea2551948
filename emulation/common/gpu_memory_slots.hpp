// SPDX-License-Identifier: MIT
//
// How GpuMemory walks the slots in a GPU's `state`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "emulation/common/gpu_memory_state.hpp"
#include "emulation/common/slots.hpp"
#include "emulation/common/thread_status.hpp"

namespace hbmwire::emulation {

/// The slots that may be in use.
template <typename Slots>
std::span<typename Slots::value_type> used(Slots& slots, std::uint32_t end) {
  return std::span(slots).first(std::min<std::size_t>(end, slots.size()));
}

/// A free slot, or null.
template <typename Slots>
auto* free_slot(Slots& slots, std::uint32_t& end) {
  for (auto& slot : used(slots, end)) {
    if (slot.live == 0) return &slot;
  }
  return end < slots.size() ? &slots[end++] : nullptr;
}

inline bool overlap(const ExportSegment& a, const ExportSegment& b) {
  return a.offset_bytes < b.offset_bytes + b.length_bytes &&
         b.offset_bytes < a.offset_bytes + a.length_bytes;
}

/// Answers whether processes are alive, asking the kernel once for each.
class Lives {
 public:
  bool dead(const ProcessId& process) {
    const auto [known, is_new] = dead_.try_emplace(process.pid, false);
    if (is_new) {
      const ThreadStatus status = thread_status(process.pid);
      // A process is not known to be dead if this one cannot look at it (out of descriptors).
      const bool is_known = status.state != 0;
      known->second = status.is_gone ||
                      (is_known && (status.started != process.started || status.state == 'Z'));
    }
    return known->second;
  }

 private:
  std::map<std::int32_t, bool> dead_;
};

/// Frees slots of other processes that have died.
template <typename Slot>
void give_back_of_dead(std::span<Slot> slots, const ProcessId& self, Lives& lives) {
  for (auto& slot : slots) {
    if (slot.live != 0 && slot.owner != self && lives.dead(slot.owner)) give_back(slot);
  }
}

}  // namespace hbmwire::emulation
