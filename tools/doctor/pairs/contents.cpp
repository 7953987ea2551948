// SPDX-License-Identifier: MIT
#include "tools/doctor/pairs/contents.hpp"

#include "tools/doctor/pairs/timing.hpp"

namespace hbmwire::tools::doctor {

static_assert(kWindowBytes % kPieceBytes == 0);

Contents::Contents(Write write, Read read)
    : write_(std::move(write)),
      read_(std::move(read)),
      chunk_(kPieceBytes),
      expected_(kPieceBytes) {}

template <class Step>
Result<void> Contents::each_chunk(Step step) {
  for (std::uint64_t at = 0; at < kWindowBytes; at += kPieceBytes) HBMWIRE_TRY(step(at));
  return {};
}

Result<void> Contents::fill(std::uint64_t offset_bytes, const Pattern& pattern) {
  return each_chunk([&](std::uint64_t at) {
    generate(pattern, at, chunk_);
    return write_(offset_bytes + at, chunk_);
  });
}

Result<void> Contents::poison(std::uint64_t offset_bytes, const Pattern& pattern) {
  return each_chunk([&](std::uint64_t at) {
    generate_poison(pattern, at, chunk_);
    return write_(offset_bytes + at, chunk_);
  });
}

Result<Comparison> Contents::compare_with(std::uint64_t offset_bytes, const Pattern& pattern) {
  Comparison all;
  const auto compare_one = [&](std::uint64_t at) -> Result<void> {
    HBMWIRE_TRY(read_(offset_bytes + at, chunk_));
    generate(pattern, at, expected_);
    all.append(compare(expected_, chunk_, at));
    return {};
  };
  HBMWIRE_TRY(each_chunk(compare_one));
  return all;
}

}  // namespace hbmwire::tools::doctor
