// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

namespace hbmwire::tools::doctor {

/// The echo answers only datagrams that begin with this. The server draws it at random for each
/// client, and sends it in the authenticated conversation. It is no secret on the wire.
using Nonce = std::array<std::uint8_t, 16>;

/// The beginning of a probe's datagram. Zeros fill it up to its size.
struct ProbeHeader {
  static constexpr std::size_t kBytes = sizeof(Nonce) + 4;

  Nonce nonce{};
  std::uint32_t number = 0;  ///< the sender's number, repeated in the answer

  bool operator==(const ProbeHeader&) const = default;
};

/// The answer. It is this small for any size of the datagram. All integers are big-endian.
struct ProbeAnswer {
  static constexpr std::size_t kBytes = ProbeHeader::kBytes + 8;

  ProbeHeader header;
  std::uint32_t received_bytes = 0;  ///< bytes of UDP payload
  std::uint32_t mtu_bytes = 0;       ///< MTU of the interface that received it; 0 if unknown

  bool operator==(const ProbeAnswer&) const = default;
};

/// Each datagram is at least as large as its answer, so that the echo cannot amplify traffic.
inline constexpr std::size_t kSmallestProbe = ProbeAnswer::kBytes;

[[nodiscard]] std::array<std::uint8_t, ProbeHeader::kBytes> encode_header(
    const ProbeHeader& header);
[[nodiscard]] std::array<std::uint8_t, ProbeAnswer::kBytes> encode_answer(
    const ProbeAnswer& answer);
/// Empty if there are too few bytes.
[[nodiscard]] std::optional<ProbeHeader> decode_header(std::span<const std::uint8_t> bytes);
/// Empty if the number of bytes is wrong.
[[nodiscard]] std::optional<ProbeAnswer> decode_answer(std::span<const std::uint8_t> bytes);

/// The server's end of a DatagramWay. Its sockets of both families answer datagrams with the nonce,
/// and drop all others. Not thread-safe.
class DatagramEcho {
 public:
  /// Datagrams beyond this number in a second are dropped. One client probes 16 addresses with some
  /// 4 sizes in 200 ms.
  static constexpr std::uint32_t kMostInASecond = 2000;

  /// Listens on UDP `port` of all addresses; 0 means a free port. One family is enough, for
  /// machines that lack the other. Errors: Hint::port_in_use; no descriptors.
  static Result<DatagramEcho> create(std::uint16_t port, const Nonce& nonce);

  /// The port that it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// The sockets of IPv4 and IPv6, for poll(2) with POLLIN. -1 if this machine lacks that family.
  [[nodiscard]] std::array<int, 2> fds() const noexcept { return {v4_.get(), v6_.get()}; }

  /// Answers waiting datagrams, and never blocks. Handles at most 256 in a call, so that a flood
  /// cannot hold the caller; call again while a descriptor is readable. Returns the number of
  /// answers.
  std::uint32_t answer();

 private:
  DatagramEcho(Fd v4, Fd v6, std::uint16_t port, const Nonce& nonce) noexcept
      : v4_(std::move(v4)), v6_(std::move(v6)), port_(port), nonce_(nonce) {}

  std::uint32_t answer_on(int fd, std::uint32_t most);
  /// Answers one datagram, or drops it (false). Sets `empty` if none was waiting.
  bool answer_one(int fd, bool& empty);
  /// Counts a datagram, and returns whether it may be answered in this second.
  bool count_in_second();

  Fd v4_;
  Fd v6_;
  std::uint16_t port_;
  Nonce nonce_;
  Deadline second_ = Deadline(Deadline::Clock::time_point::min());  // the end of the current second
  std::uint32_t in_second_ = 0;
};

}  // namespace hbmwire::tools::doctor
