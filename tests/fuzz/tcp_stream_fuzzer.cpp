// SPDX-License-Identifier: MIT
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "hbmwire/fd.hpp"

#include "transport/tcp/stream.hpp"

namespace {

using namespace hbmwire;
using wire::TcpFrame;

/// Reassembles the bytes that it gets. They must equal the sent frames, as far as these arrived
/// completely.
class Recorder final : public transport::FrameUser {
 public:
  explicit Recorder(std::uint8_t choices) : choices_(choices) {}

  bool next(transport::OutFrame& /*frame*/) noexcept override { return false; }

  void sent(std::uint64_t /*mark*/) noexcept override {}

  void unreadable(std::uint64_t /*mark*/) noexcept override { std::abort(); }

  void unwritable(const TcpFrame& /*frame*/) noexcept override { std::abort(); }

  Place place(const TcpFrame& frame, std::uint32_t offset,
              std::span<std::byte>& memory) noexcept override {
    if (offset >= frame.length || offset != whole_.size()) std::abort();
    // Every second place is not ready yet.
    if ((choices_ & 1U) != 0 && !std::exchange(made_to_wait_, true)) return Place::later;
    made_to_wait_ = false;
    const std::size_t most = (choices_ & 2U) != 0 ? 7 : frame.length;
    memory_.assign(std::min<std::size_t>(most, frame.length - offset), std::byte{});
    memory = memory_;
    return Place::here;
  }

  void taken(const TcpFrame& /*frame*/, std::uint32_t offset,
             std::uint32_t bytes) noexcept override {
    if (offset != whole_.size() || bytes > memory_.size()) std::abort();
    whole_.insert(whole_.end(), memory_.begin(), memory_.begin() + bytes);
  }

  void arrived(const TcpFrame& frame) noexcept override {
    if (whole_.size() != frame.length) std::abort();
    std::array<std::byte, wire::kTcpFrameBytes> header;
    encode(frame, header.data());
    came.insert(came.end(), header.begin(), header.end());
    came.insert(came.end(), whole_.begin(), whole_.end());
    whole_.clear();
  }

  std::vector<std::byte> came;

 private:
  std::uint8_t choices_;
  bool made_to_wait_ = false;
  std::vector<std::byte> memory_;
  std::vector<std::byte> whole_;
};

}  // namespace

/// Input: a byte of choices (how the receiver reads, and in what pieces the bytes arrive), and all
/// bytes of a peer. The frames arrive as sent, up to the first invalid one.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 100000;  // a socket accepts so much without a reader
  if (size < 1 || size > kMost) return 0;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return 0;
  Fd sender{ends[0]};
  Recorder user(data[0]);
  transport::Stream stream(Fd{ends[1]}, user, "peer");
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t piece = 1 + (data[0] >> 2U) * std::size_t{9};
  bool good = true;
  for (std::size_t at = 0; at < bytes.size() && good; at += piece) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    if (::send(sender.get(), part.data(), part.size(), 0) != static_cast<ssize_t>(part.size()))
      return 0;
    good = stream.receive().has_value();
  }
  sender.reset();
  constexpr int kEnough = 300000;  // places of 7 bytes, each requested twice
  for (int i = 0; i < kEnough && good; ++i) good = stream.receive().has_value();
  if (good) std::abort();
  if (user.came.size() > bytes.size()) std::abort();
  if (!std::equal(user.came.begin(), user.came.end(), bytes.begin())) std::abort();
  return 0;
}
