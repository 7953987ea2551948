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
  double latency_ns = 0;  ///< of a write of 8 bytes until its completion, the median
};

/// The requests of one queue pair between two regions of two windows each (kWindowBytes): a
/// region's first window is read from, and its second one is written to, whoever does it.
class Traffic {
 public:
  /// From `near`, which is connected, to the region `far` at its other end. `step`: how long a call
  /// may wait.
  Traffic(Connection near, const Region& region, const RemoteMemory& far,
          std::chrono::milliseconds step, int cancel_fd)
      : region_(region), far_(far), near_(std::move(near)), step_(step), cancel_fd_(cancel_fd) {}

  /// Between two queue pairs of one NIC, within one region.
  static Result<Traffic> in_loopback(const Nic& nic, const Region& region, const LinkOptions& link,
                                     std::chrono::milliseconds step, int cancel_fd);

  /// All of it once, by RDMA writes or reads.
  Result<void> move_window(bool write);

  /// Writes, reads and latency, within that time and a window each. Afterwards the far region's
  /// second window has the bytes of the near one's first, and the other way round: they are to be
  /// compared, since those of the passes before were written over.
  Result<Figures> measure(std::chrono::milliseconds time);

 private:
  /// Again and again for that time, or until 64 MiB have moved.
  Result<double> bytes_per_second(bool write, std::chrono::milliseconds time);

  /// The median of writes of 8 bytes, one at a time, until their completions.
  Result<double> latency_ns(std::chrono::milliseconds time);

  Result<void> post(bool write, std::uint64_t piece);
  Result<void> await_one();

  // The queue pairs go before the region that they may still write to.
  Region region_;
  RemoteMemory far_;
  std::optional<Connection> loop_;  // the other end, where that is in this process
  Connection near_;
  std::chrono::milliseconds step_;
  int cancel_fd_;
};

}  // namespace hbmwire::tools::doctor
