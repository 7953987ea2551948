// SPDX-License-Identifier: MIT
#include "emulation/nic/memory/relaxed.hpp"

#include <algorithm>
#include <ctime>
#include <random>
#include <vector>

namespace hbmwire::emulation::nic {
namespace {

/// Blocks are multiples of this length, as PCIe writes are.
constexpr std::uint64_t kLineBytes = 64;
constexpr std::uint64_t kBlocks = 16;  // of a message, at most
/// Long enough for a poller of the last bytes to see them before the others.
constexpr timespec kPause{0, 20'000};

SegmentList slice(const SegmentList& list, std::uint64_t offset, std::uint64_t length) {
  SegmentList part;
  for (Segment segment : list.view()) {
    const std::uint64_t skipped = std::min(offset, segment.length);
    offset -= skipped;
    segment.address += skipped;
    segment.length = std::min(segment.length - skipped, length);
    length -= segment.length;
    part.add(segment);
  }
  return part;
}

std::vector<std::uint64_t> blocks_in_any_order(std::uint64_t bytes, std::uint64_t block,
                                               std::uint64_t seed) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t offset = 0; offset < bytes; offset += block) order.push_back(offset);
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  if (random() % 2 == 0)  // a program that polls the last bytes sees them first half of the time
    std::iter_swap(order.begin(), std::max_element(order.begin(), order.end()));
  return order;
}

}  // namespace

int move_bytes_in_any_order(const SegmentList& to, const SegmentList& from, std::uint64_t seed) {
  const std::uint64_t bytes = std::min(to.bytes(), from.bytes());
  const std::uint64_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  const std::uint64_t block = (lines + kBlocks - 1) / kBlocks * kLineBytes;
  if (lines <= 1) return move_bytes(to, from);
  bool paused = false;
  for (const std::uint64_t offset : blocks_in_any_order(bytes, block, seed)) {
    if (const int error = move_bytes(slice(to, offset, block), slice(from, offset, block));
        error != 0) {
      return error;
    }
    if (!paused) ::nanosleep(&kPause, nullptr);
    paused = true;
  }
  return 0;
}

}  // namespace hbmwire::emulation::nic
