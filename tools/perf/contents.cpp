// SPDX-License-Identifier: MIT
#include "tools/perf/contents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hbmwire::tools::perf {
namespace {

// Each area has its own pattern, so bytes meant for another queue pair count as wrong.
Pattern of_area(Pattern pattern, std::uint64_t area) {
  constexpr std::uint32_t kGolden = 0x9e3779b9;  // 2^32 / golden ratio: spreads small numbers
  pattern.seed += static_cast<std::uint32_t>(area) * kGolden;
  return pattern;
}

}  // namespace

Outcome<void> Contents::write_areas(std::uint64_t half_offset, std::uint64_t span_bytes,
                                    bool poison) {
  const Layout& layout = side_->layout;
  const std::uint64_t count = std::uint64_t{layout.queue_pairs} * layout.flows;
  for (std::uint64_t area = 0; area < count; ++area) {
    const Window window{half_offset + area * layout.area_bytes, span_bytes};
    const Pattern pattern = of_area(pattern_, area);
    HBMWIRE_TRY(poison ? staging_.poison(window, pattern) : staging_.fill(window, pattern));
  }
  return {};
}

Outcome<void> Contents::compare(std::span<const Expected> places, Verification& found) {
  read_.clear();  // the buffer has changed since the last comparison
  for (const Expected& place : places) HBMWIRE_TRY(compare_one(place, found));
  return {};
}

// Reads at least a page, which also holds the next small slots: copying it from a device costs the
// same.
Outcome<std::span<const std::byte>> Contents::look_at(std::uint64_t at, std::uint64_t length) {
  constexpr std::uint64_t kLeastBytes = 4096;
  if (at < read_at_ || at + length > read_at_ + read_.size()) {
    const std::uint64_t left = side_->buffer.size_bytes() - at;
    read_.resize(std::min(std::max(length, kLeastBytes), left));
    read_at_ = at;
    HBMWIRE_TRY(side_->buffer.read(at, read_, session_->wait()));
    HBMWIRE_TRY(session_->tick());
  }
  return std::span<const std::byte>(read_).subspan(at - read_at_, length);
}

Outcome<void> Contents::compare_one(const Expected& place, Verification& found) {
  const std::uint64_t in_half = place.from % side_->layout.half_bytes();
  const std::uint64_t area = in_half / side_->layout.area_bytes;
  const std::uint64_t in_area = in_half % side_->layout.area_bytes;
  const Pattern pattern = of_area(pattern_, area);
  Comparison all;
  expected_.resize(std::min<std::uint64_t>(Staging::kChunkBytes, place.size_bytes));
  for (std::uint64_t done = 0; done < place.size_bytes;) {
    const std::uint64_t length = std::min<std::uint64_t>(expected_.size(), place.size_bytes - done);
    const std::span<std::byte> expected(expected_.data(), length);
    HBMWIRE_TRY_ASSIGN(const auto got, look_at(place.at + done, length));
    generate(pattern, in_area + done, expected);
    all.append(hbmwire::tools::compare(expected, got, done));
    done += length;
  }
  ++found.slots;
  found.bytes += all.bytes;
  found.wrong_bytes += all.wrong_bytes;
  if (all.wrong_bytes != 0 && found.problem.empty()) found.problem = describe_wrong(place, all);
  return {};
}

std::uint64_t Contents::word_of_pattern(std::uint64_t from) const {
  const std::uint64_t in_half = from % side_->layout.half_bytes();
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  generate(of_area(pattern_, in_half / side_->layout.area_bytes),
           in_half % side_->layout.area_bytes, bytes);
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

Outcome<std::uint64_t> Contents::read_word(std::uint64_t at) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  HBMWIRE_TRY(side_->buffer.read(at, bytes, session_->wait()));
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

Outcome<void> Contents::write_word(std::uint64_t at, std::uint64_t value) {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  HBMWIRE_TRY(side_->buffer.write(at, bytes, session_->wait()));
  return {};
}

std::string describe_wrong(const Expected& place, const Comparison& wrong) {
  return fmt::format(
      "verify: slot at {:#x}, byte {}: expected {:#04x}, got {:#04x} ({} of {} bytes of the slot "
      "wrong)",
      place.at, wrong.offset_bytes, wrong.expected, wrong.got, wrong.wrong_bytes, wrong.bytes);
}

}  // namespace hbmwire::tools::perf
