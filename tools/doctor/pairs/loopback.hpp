// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/region.hpp"

namespace hbmwire::tools::doctor {

/// Two queue pairs of one NIC that are connected to each other, and a region of two windows
/// (kWindowBytes each): bytes go from the first one to the second one.
class Loopback {
 public:
  /// `step`: how long a call may wait.
  static Result<Loopback> create(const Nic& nic, const Region& region, const LinkOptions& link,
                                 std::chrono::milliseconds step, int cancel_fd);

  /// All of it once, by RDMA writes or reads.
  Result<void> move_window(bool write);

  /// Again and again for that time, or until 64 MiB have moved.
  Result<double> bytes_per_second(bool write, std::chrono::milliseconds time);

  /// The median of writes of 8 bytes, one at a time, until their completions.
  Result<double> latency_ns(std::chrono::milliseconds time);

 private:
  Loopback(Connection near, Connection far, const Region& region, std::chrono::milliseconds step,
           int cancel_fd)
      : region_(region),
        near_(std::move(near)),
        far_(std::move(far)),
        step_(step),
        cancel_fd_(cancel_fd) {}

  Result<void> post(bool write, std::uint64_t piece);
  Result<void> await_one();

  // The queue pairs go before the region that they may still write to.
  Region region_;
  Connection near_;
  Connection far_;
  std::chrono::milliseconds step_;
  int cancel_fd_;
};

}  // namespace hbmwire::tools::doctor
