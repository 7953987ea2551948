// SPDX-License-Identifier: MIT
#include "tools/perf/layout.hpp"

#include <algorithm>

namespace hbmwire::tools::perf {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kLineBytes = 64;

}  // namespace

Layout Layout::of(const wire::PerfRequest& request) {
  Layout layout;
  // Whole pages, because the copy engines of devices work best with page-aligned areas.
  layout.area_bytes = round_up(request.size_bytes + kGrhBytes, kPageBytes);
  layout.queue_pairs = request.queue_pairs;
  layout.flows = request.flows;
  return layout;
}

Slots Slots::of(const Layout& layout, std::uint64_t size_bytes, std::uint32_t header_bytes) {
  Slots slots{.size_bytes = size_bytes, .header_bytes = header_bytes, .offsets = {}};
  const std::uint64_t stride = round_up(size_bytes + header_bytes, kLineBytes);
  const std::uint64_t count = std::max<std::uint64_t>(1, kPageBytes / stride);
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t flow = 0; flow < layout.flows; ++flow)
      slots.offsets.push_back(flow * layout.area_bytes + i * stride);
  }
  return slots;
}

std::uint64_t Slots::span_bytes(const Layout& layout) const noexcept {
  // The last slot's place in its area; its offset also counts the areas of earlier flows.
  const std::uint64_t last = offsets.back() % layout.area_bytes;
  return round_up(last + size_bytes + header_bytes, kLineBytes);
}

}  // namespace hbmwire::tools::perf
