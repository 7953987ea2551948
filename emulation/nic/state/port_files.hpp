// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <vector>

#include "emulation/nic/state/limits.hpp"

namespace hbmwire::emulation::nic {

struct SharedState;

/// The ports whose counters this process has changed since their files were last written. The
/// helper thread writes the files 50 ms later; write_all() writes them at once.
class PortFiles {
 public:
  /// Notes that a counter of `port` has changed. Costs one load if that is noted already, so the
  /// data path can afford it. Returns true if the helper thread must be woken to write the files.
  ///
  /// Counting and noting are sequentially consistent: either the writer sees the new count, or the
  /// thread that counted sees that the note is gone.
  bool note(std::uint32_t port) { return !noted_[port].load() && enter(port); }

  /// Adds traffic that is not counted yet to the counters of its ports and notes these ports.
  /// Returns true if some traffic has to wait for the next time.
  using Collect = std::function<bool()>;

  /// Writes the files of the noted ports if they are due. Returns when the next write is due, in ns
  /// of now_ns(); 0: nothing is noted.
  std::uint64_t progress(SharedState& shared, const std::filesystem::path& fabric,
                         std::uint64_t now, const Collect& collect);

  void write_all(SharedState& shared, const std::filesystem::path& fabric, const Collect& collect);

 private:
  bool enter(std::uint32_t port);
  std::vector<std::uint32_t> take();
  void publish(SharedState& shared, const std::filesystem::path& fabric,
               const std::vector<std::uint32_t>& ports);

  std::array<std::atomic<bool>, kMaxFabricPorts> noted_{};
  std::mutex writing_;  // held from taking the noted ports until their files are written
  std::mutex mutex_;    // guards the members below; taken with `writing_` held
  std::vector<std::uint32_t> ports_;
  std::uint64_t due_ns_ = 0;  // 0: the helper thread has nothing to write
  bool woken_ = false;
  bool some_left_ = false;  // some traffic could not be collected last time
};

}  // namespace hbmwire::emulation::nic
