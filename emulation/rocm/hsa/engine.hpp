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

/// A copy that waits for signals before it begins and changes one at its end.
struct CopyJob {
  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::vector<std::shared_ptr<Signal>> after;  ///< each must have been seen at 0 first
  std::shared_ptr<Signal> done;  ///< decremented at the end; negative: the copy failed
};

/// A GPU's copy engines. As on a real GPU there is one for each direction, so copies that need an
/// order must be ordered by signals.
class CopyEngines {
 public:
  enum class Direction : std::uint8_t { to_gpu, to_host, within };

  explicit CopyEngines(Allocations& allocations);

  void post(Direction direction, CopyJob job);

  /// Makes copies that wait for a signal fail from now on.
  void stop() { stopping_.store(true); }

 private:
  int run(const CopyJob& job);
  bool wait_for(const std::vector<std::shared_ptr<Signal>>& signals) const;

  Allocations& allocations_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<WorkQueue>> queues_;  // by direction
};

/// Moves bytes between any two places, as a GPU's engine does.
void move_bytes(const EngineView& to, const EngineView& from, std::uint64_t bytes);

}  // namespace hbmwire::emulation::rocm
