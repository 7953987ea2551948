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

/// A datagram must begin with it, so that the echo answers. The server draws it at random for
/// each client, and tells it in the authenticated conversation. It is no secret on the wire.
using Nonce = std::array<std::uint8_t, 16>;

/// A datagram of the probe begins with the nonce and a number; zeros make up its size.
struct ProbeHeader {
  static constexpr std::size_t kBytes = sizeof(Nonce) + 4;

  Nonce nonce{};
  std::uint32_t number = 0;  ///< the sender's, which the answer repeats

  bool operator==(const ProbeHeader&) const = default;
};

/// The answer: as small as it is whatever the datagram's size. All integers are big-endian.
struct ProbeAnswer {
  static constexpr std::size_t kBytes = ProbeHeader::kBytes + 8;

  ProbeHeader header;
  std::uint32_t received_bytes = 0;  ///< of UDP payload
  std::uint32_t mtu_bytes = 0;       ///< of the interface that received it; 0: not known

  bool operator==(const ProbeAnswer&) const = default;
};

/// A datagram is at least as large as its answer, so that the echo multiplies no traffic.
inline constexpr std::size_t kSmallestProbe = ProbeAnswer::kBytes;

[[nodiscard]] std::array<std::uint8_t, ProbeHeader::kBytes> encode_header(
    const ProbeHeader& header);
[[nodiscard]] std::array<std::uint8_t, ProbeAnswer::kBytes> encode_answer(
    const ProbeAnswer& answer);
/// Nothing for bytes that are none: too few of them.
[[nodiscard]] std::optional<ProbeHeader> decode_header(std::span<const std::uint8_t> bytes);
/// Nothing for bytes that are none: not exactly as many.
[[nodiscard]] std::optional<ProbeAnswer> decode_answer(std::span<const std::uint8_t> bytes);

/// The server's end of a DatagramWay: sockets of both families that answer datagrams with the
/// nonce, and drop all others. One thread.
class DatagramEcho {
 public:
  /// More datagrams in a second than this are dropped. One client sends 16 addresses some 4 sizes
  /// in 200 ms.
  static constexpr std::uint32_t kMostInASecond = 2000;

  /// On UDP `port` of all addresses; 0: one that is free. One family is enough, for machines
  /// without the other. Errors: Hint::port_in_use; no descriptors.
  static Result<DatagramEcho> create(std::uint16_t port, const Nonce& nonce);

  /// The port that it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

  /// For poll(2), POLLIN: IPv4 and IPv6. -1: this machine has no such family.
  [[nodiscard]] std::array<int, 2> fds() const noexcept { return {v4_.get(), v6_.get()}; }

  /// Answers what is waiting, and never blocks. At most 256 datagrams in a call, so that a flood
  /// does not keep the caller; call again when a descriptor is readable. The number of answers.
  std::uint32_t answer();

 private:
  DatagramEcho(Fd v4, Fd v6, std::uint16_t port, const Nonce& nonce) noexcept
      : v4_(std::move(v4)), v6_(std::move(v6)), port_(port), nonce_(nonce) {}

  std::uint32_t answer_on(int fd, std::uint32_t most);
  bool answer_one(int fd, bool& empty);
  bool is_within_rate();

  Fd v4_;
  Fd v6_;
  std::uint16_t port_;
  Nonce nonce_;
  Deadline second_ = Deadline(Deadline::Clock::time_point::min());  // the end of this second
  std::uint32_t in_second_ = 0;
};

}  // namespace hbmwire::tools::doctor
