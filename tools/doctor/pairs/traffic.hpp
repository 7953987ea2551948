// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>

#include "hbmwire/low_level/connection.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/region.hpp"

namespace hbmwire::tools::doctor {

/// The figures of one side of a pair.
struct Figures {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  double latency_ns = 0;  ///< median time of an 8-byte write until its completion
};

/// The requests of one queue pair between two regions, each of two windows (kWindowBytes). The
/// first window of a region is the source of both ends' transfers, the second one the target.
class Traffic {
 public:
  /// `near` is connected to another process that owns the region `far`. `step`: the longest time a
  /// call may wait.
  Traffic(Connection near, const Region& region, const RemoteMemory& far,
          std::chrono::milliseconds step, int cancel_fd)
      : region_(region), far_(far), near_(std::move(near)), step_(step), cancel_fd_(cancel_fd) {}

  /// Connects two queue pairs of one NIC, within one region.
  static Result<Traffic> in_loopback(const Nic& nic, const Region& region, const LinkOptions& link,
                                     std::chrono::milliseconds step, int cancel_fd);

  /// Moves a whole window once, by RDMA writes or reads.
  Result<void> move_window(bool write);

  /// Measures writes, reads and latency within that time, each by at least one window. Afterwards
  /// the far region's second window holds the near one's first window, and vice versa. The caller
  /// must compare them, because each pass overwrites the one before.
  Result<Figures> measure(std::chrono::milliseconds time);

 private:
  /// Moves windows repeatedly for that time, or until 64 MiB have moved.
  Result<double> bytes_per_second(bool write, std::chrono::milliseconds time);

  /// The median time of an 8-byte write until its completion, one write at a time.
  Result<double> latency_ns(std::chrono::milliseconds time);

  /// Posts the request for one piece of a window. Higher numbers begin at its first piece again.
  Result<void> post(bool write, std::uint64_t piece);
  Result<void> await_one();

  // The queue pairs must be destroyed before the region, to which they may still write. Members are
  // destroyed in reverse order.
  Region region_;
  RemoteMemory far_;
  std::optional<Connection> loop_;  // the other end, if it is in this process
  Connection near_;
  std::chrono::milliseconds step_;
  int cancel_fd_;
};

}  // namespace hbmwire::tools::doctor
