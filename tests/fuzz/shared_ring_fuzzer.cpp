// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "transport/shared/ring.hpp"

namespace {

using namespace hbmwire::transport;

constexpr std::uint32_t kCells = SharedRingFile::kCells;

/// The bytes of the input one after the other, and then zeros.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::size_t there = std::min(bytes, bytes_.size());
    std::memcpy(&value, bytes_.data(), there);
    bytes_ = bytes_.subspan(there);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// A process with both ends of a ring, and another one that writes arbitrary bytes into it.
class Subject {
 public:
  /// `begins`: the cell in which the next frame begins.
  explicit Subject(std::uint64_t begins) {
    constexpr std::uint64_t kAtOnce = 100;
    for (std::uint64_t cell = 0; cell != begins;) {
      const std::uint64_t cells = std::min(begins - cell, kAtOnce);
      const std::uint64_t bytes = cells * SharedRingFile::kCellBytes - sizeof(RingFrameHead);
      if (!writer_.has_room(static_cast<std::uint32_t>(bytes))) std::abort();
      static_cast<void>(writer_.write({.body = std::span(body_).first(bytes)}));
      if (!reader_.peek()) std::abort();
      reader_.take();
      reader_.tell_taken();
      cell += cells;
    }
  }

  /// A write by the hostile process, as the input says.
  void store(Input& input) {
    switch (input.number(1) % 6) {
      case 0: {  // a word whose kind and length may be valid
        const std::uint64_t kind = input.number(1) % 5;
        word(input) = kind << 56U | input.number(2) % (RingWriter::kMostBytes + 2);
        return;
      }
      case 1:
        word(input) = input.number(8);
        return;
      case 2:
        word(input) = std::uint64_t{1} << 56U;  // a skip
        return;
      case 3: {
        auto& cell = ring_->cells[input.number(2) % kCells];
        cell.bytes[input.number(1) % cell.bytes.size()] = static_cast<std::byte>(input.number(1));
        return;
      }
      case 4:  // near the number of frames taken
        ring_->taken = ring_->taken + input.number(1) - 8;
        return;
      default:
        ring_->taken = input.number(8);
        return;
    }
  }

  void read(Input& input) {
    const auto frame = reader_.peek();
    if (frame && reader_.is_broken()) std::abort();
    if (frame) {
      const auto* const begin = reinterpret_cast<const std::byte*>(ring_.get());
      if (frame->bytes.size() > RingWriter::kMostBytes || frame->bytes.data() < begin ||
          frame->bytes.data() + frame->bytes.size() > begin + sizeof *ring_)
        std::abort();
      if (frame->kind < RingFrameKind::message || frame->kind > RingFrameKind::word) std::abort();
    }
    // A second look must find a frame exactly if the first one did.
    if (reader_.peek().has_value() != frame.has_value()) std::abort();
    const std::uint64_t how = input.number(1);
    if ((how & 1U) != 0) reader_.take();
    if ((how & 2U) != 0) reader_.tell_taken();
    static_cast<void>(reader_.has_frame());
  }

  void write(Input& input) {
    const auto length = static_cast<std::uint32_t>(input.number(2) % (RingWriter::kMostBytes + 1));
    const bool was_broken = writer_.is_broken();
    const bool has_room = writer_.has_room(length);
    if (was_broken && (has_room || !writer_.is_broken())) std::abort();
    if (!has_room) return;
    const std::uint64_t split = input.number(1);
    const auto bytes = std::span(body_).first(length);
    const auto head = bytes.first(std::min<std::size_t>(split, length));
    if (writer_.write({.kind = RingFrameKind::message,
                       .value = static_cast<std::uint32_t>(length),
                       .head = head,
                       .body = bytes.subspan(head.size())}) != 0)
      std::abort();
  }

  void ask(Input& input) {
    reader_.set_attention(static_cast<Attention>(input.number(1)));
    static_cast<void>(writer_.attention());
    static_cast<void>(writer_.is_empty());
  }

 private:
  std::atomic<std::uint64_t>& word(Input& input) {
    return ring_->cells[input.number(2) % kCells].word;
  }

  std::unique_ptr<SharedRingFile> ring_ = std::make_unique<SharedRingFile>();
  RingWriter writer_{*ring_};
  RingReader reader_{*ring_};
  std::array<std::byte, RingWriter::kMostBytes> body_{};
};

/// Two processes that obey the rules: each frame arrives as it was sent.
void run_good(Input& input) {
  const auto ring = std::make_unique<SharedRingFile>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  std::array<std::byte, RingWriter::kMostBytes> body{};
  std::uint32_t sent = 0;
  std::uint32_t taken = 0;
  std::array<std::uint32_t, kCells> lengths{};
  while (!input.empty()) {
    const auto length = static_cast<std::uint32_t>(input.number(2) % (RingWriter::kMostBytes + 1));
    if (writer.has_room(length)) {
      lengths[sent % kCells] = length;
      std::memset(body.data(), static_cast<int>(sent), length);
      if (writer.write({.value = sent, .body = std::span(body).first(length)}) != 0) std::abort();
      ++sent;
    } else if (sent == taken) {
      std::abort();
    }
    for (std::uint64_t most = input.number(1) % 8; most != 0; --most) {
      const auto frame = reader.peek();
      if (frame.has_value() != (sent != taken)) std::abort();
      if (!frame) break;
      const auto is_its = [&](std::byte byte) { return byte == static_cast<std::byte>(taken); };
      if (frame->value != taken || frame->bytes.size() != lengths[taken % kCells] ||
          !std::ranges::all_of(frame->bytes, is_its))
        std::abort();
      reader.take();
      ++taken;
    }
    reader.tell_taken();
    if (writer.is_empty() != (sent == taken)) std::abort();
  }
  if (writer.is_broken() || reader.is_broken()) std::abort();
}

}  // namespace

/// Input: which of the two tests, the cell where it begins, and then steps of the other process or
/// of this one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 4096;
  if (size < 1 || size > kMost) return 0;
  Input input(std::span(data, size).subspan(1));
  if (data[0] % 2 != 0) {
    run_good(input);
    return 0;
  }
  Subject subject(input.number(2) % kCells);
  while (!input.empty()) {
    switch (input.number(1) % 4) {
      case 0:
        subject.store(input);
        break;
      case 1:
        subject.read(input);
        break;
      case 2:
        subject.write(input);
        break;
      default:
        subject.ask(input);
        break;
    }
  }
  return 0;
}
