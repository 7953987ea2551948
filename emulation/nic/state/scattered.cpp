// SPDX-License-Identifier: MIT
#include "emulation/nic/state/scattered.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace hbmwire::emulation::nic {

bool scatters_by_environment() {
  const char* text = std::getenv("MLX5_SCATTER_TO_CQE");
  return text == nullptr || std::string_view(text) != "0";
}

std::uint32_t claim_scattered(Process& process, const Scatterer& of, std::uint64_t bytes,
                              std::span<const ibv_sge> elements) {
  SharedState& shared = process.shared();
  for (std::uint32_t tried = 0; tried < kMaxScattered; ++tried) {
    const std::uint32_t index = shared.header.next_scattered.fetch_add(1) % kMaxScattered;
    ScatteredRecord& record = shared.scattered[index];
    std::uint32_t free = 0;
    if (index == 0 || !record.taken.compare_exchange_strong(free, 1)) continue;
    record.owner = of.slot;
    record.qpn = of.qpn;
    record.bytes = static_cast<std::uint32_t>(bytes);
    record.num_sge = static_cast<std::uint32_t>(elements.size());
    std::copy(elements.begin(), elements.end(), record.sge);
    return index;
  }
  return 0;
}

void release_scattered(Process& process, std::uint32_t index) {
  if (index != 0) process.shared().scattered[index].taken.store(0, std::memory_order_release);
}

void place_scattered_message(Process& process, const Cqe& entry) {
  const ScatteredRecord& record = process.shared().scattered[entry.scattered()];
  if (record.qpn != entry.qpn) return;  // its queue pair is gone, and could not be purged in time
  const std::byte* from = record.message;
  std::uint64_t left = record.bytes;
  for (const ibv_sge& element : std::span(record.sge, record.num_sge)) {
    const std::uint64_t length = std::min<std::uint64_t>(element.length, left);
    if (length != 0) std::memcpy(reinterpret_cast<void*>(element.addr), from, length);
    from += length;
    left -= length;
  }
  release_scattered(process, entry.scattered());
}

void release_scattered_of(SharedState& shared, const Scatterer& of) {
  for (ScatteredRecord& record : shared.scattered) {
    if (record.taken.load() == 0 || record.owner != of.slot) continue;
    if (of.qpn == 0 || record.qpn == of.qpn) record.taken.store(0, std::memory_order_release);
  }
}

}  // namespace hbmwire::emulation::nic
