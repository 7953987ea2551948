// SPDX-License-Identifier: MIT
#include "emulation/nic/state/scattered.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

namespace hbmwire::emulation::nic {
namespace {

std::atomic<std::uint64_t>& word_of(SharedState& shared, std::uint32_t index) {
  return shared.scattered_taken[index / 64];
}

constexpr std::uint64_t bit_of(std::uint32_t index) { return 1ULL << index % 64; }

}  // namespace

bool scatters_by_environment() {
  const char* text = std::getenv("MLX5_SCATTER_TO_CQE");
  return text == nullptr || std::string_view(text) != "0";
}

std::uint32_t claim_scattered(Process& process, const Scatterer& of, std::uint64_t bytes,
                              std::span<const ibv_sge> elements) {
  SharedState& shared = process.shared();
  for (std::uint32_t tried = 0; tried < kMaxScattered; ++tried) {
    const std::uint32_t index = shared.header.next_scattered.fetch_add(1) % kMaxScattered;
    if (index == 0 || (word_of(shared, index).fetch_or(bit_of(index)) & bit_of(index)) != 0)
      continue;
    ScatteredRecord& record = shared.scattered[index];
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
  if (index != 0) word_of(process.shared(), index).fetch_and(~bit_of(index));
}

void place_scattered_message(Process& process, const Cqe& entry) {
  const ScatteredRecord& record = process.shared().scattered[entry.scattered()];
  // The QP of the entry is gone, but the entry could not be purged.
  if (record.qpn != entry.qpn) return;
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
  std::uint32_t first = 0;
  for (auto& word : shared.scattered_taken) {
    for (std::uint64_t bits = word.load(); bits != 0; bits &= bits - 1) {
      const std::uint32_t index = first + static_cast<std::uint32_t>(std::countr_zero(bits));
      const ScatteredRecord& record = shared.scattered[index];
      if (record.owner == of.slot && (of.qpn == 0 || record.qpn == of.qpn))
        word.fetch_and(~bit_of(index));
    }
    first += 64;
  }
}

}  // namespace hbmwire::emulation::nic
