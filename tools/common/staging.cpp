// SPDX-License-Identifier: MIT
#include "tools/common/staging.hpp"

#include <algorithm>

#include "hbmwire/buffer.hpp"

namespace hbmwire::tools {

Staging::Staging(Buffer& buffer, Session& session)
    : buffer_(&buffer),
      session_(&session),
      chunk_(std::min<std::uint64_t>(kChunkBytes, buffer.size_bytes())),
      expected_(chunk_.size()) {}

// `step` gets the offset in the window, and a chunk of the size to process. Offsets are multiples
// of whole chunks, so only the last chunk can have a size that is not a multiple of 4.
template <class Step>
Outcome<void> Staging::each_chunk(const Window& window, Step step) {
  for (std::uint64_t at = 0; at < window.length_bytes;) {
    const std::uint64_t left = window.length_bytes - at;
    const std::span<std::byte> chunk(chunk_.data(), std::min<std::uint64_t>(left, chunk_.size()));
    HBMWIRE_TRY(step(at, chunk));
    keep_head(at, chunk);
    HBMWIRE_TRY(session_->tick());
    at += chunk.size();
  }
  return {};
}

void Staging::keep_head(std::uint64_t offset_bytes, std::span<const std::byte> chunk) {
  constexpr std::size_t kHeadBytes = 40;  // the first ten integers are shown
  if (offset_bytes != 0) return;
  const auto head = chunk.first(std::min(kHeadBytes, chunk.size()));
  head_.assign(head.begin(), head.end());
}

Outcome<void> Staging::fill(const Window& window, const Pattern& pattern) {
  return each_chunk(window, [&](std::uint64_t at, std::span<std::byte> chunk) -> Outcome<void> {
    generate(pattern, at, chunk);
    HBMWIRE_TRY(buffer_->write(window.offset_bytes + at, chunk, session_->wait()));
    return {};
  });
}

Outcome<void> Staging::poison(const Window& window, const Pattern& pattern) {
  return each_chunk(window, [&](std::uint64_t at, std::span<std::byte> chunk) -> Outcome<void> {
    generate_poison(pattern, at, chunk);
    HBMWIRE_TRY(buffer_->write(window.offset_bytes + at, chunk, session_->wait()));
    return {};
  });
}

Outcome<Comparison> Staging::verify(const Window& window, const Pattern& pattern) {
  return compare_chunks(window, pattern, nullptr);
}

Outcome<Comparison> Staging::verify_and_double(const Window& from, const Pattern& pattern,
                                               std::uint64_t to_offset_bytes) {
  return compare_chunks(from, pattern, &to_offset_bytes);
}

Outcome<Comparison> Staging::compare_chunks(const Window& from, const Pattern& pattern,
                                            const std::uint64_t* double_to) {
  Comparison all;
  const auto compare_one = [&](std::uint64_t at, std::span<std::byte> chunk) -> Outcome<void> {
    HBMWIRE_TRY(buffer_->read(from.offset_bytes + at, chunk, session_->wait()));
    const std::span<std::byte> expected(expected_.data(), chunk.size());
    generate(pattern, at, expected);
    all.append(compare(expected, chunk, at));
    if (double_to == nullptr) return {};
    double_integers(chunk);
    HBMWIRE_TRY(buffer_->write(*double_to + at, chunk, session_->wait()));
    return {};
  };
  HBMWIRE_TRY(each_chunk(from, compare_one));
  return all;
}

}  // namespace hbmwire::tools
