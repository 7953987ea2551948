// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulation/common/work_queue.hpp"
#include "emulation/rocm/hsa/allocations.hpp"
#include "emulation/rocm/hsa/signal.hpp"

namespace hbmwire::emulation::rocm {

struct CopyJob {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::vector<std::shared_ptr<Signal>> after;  ///< each must be seen at 0 first
  std::shared_ptr<Signal> done;                ///< decremented; negative when the copy fails
};

/// A GPU's copy engines: one in each direction, as a real one has, so that copies which must keep
/// an order have to say so by signals.
class CopyEngines {
 public:
  enum class Direction : std::uint8_t { to_gpu, to_host, within };

  explicit CopyEngines(Allocations& allocations);

  void post(Direction direction, CopyJob job);

  /// Copies that wait for a signal fail from now on.
  void stop() { stopping_.store(true); }

 private:
  int run(const CopyJob& job);
  bool wait_for(const std::vector<std::shared_ptr<Signal>>& signals) const;

  Allocations& allocations_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<WorkQueue>> queues_;  // by direction
};

/// What a GPU's engine does to move bytes, from anywhere to anywhere.
void move_bytes(const EngineView& to, const EngineView& from, std::uint64_t bytes);

}  // namespace hbmwire::emulation::rocm
