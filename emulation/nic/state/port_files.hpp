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

/// The ports that this process has counted something at since their files were written. The helper
/// thread writes them 50 ms later; whoever wants them exact at once calls write_all().
class PortFiles {
 public:
  /// Notes that something was counted at `port`. A load when it is noted already, which is all that
  /// the data path pays. True: nobody is going to write it, so the helper thread is to be woken.
  ///
  /// Counting, too, is sequentially consistent: either the writer below sees the count, or the one
  /// who counted sees that the note is gone.
  bool note(std::uint32_t port) { return !noted_[port].load() && enter(port); }

  /// Collects what is yet to be counted at ports, and notes these; true when some of it has to wait
  /// for the next time.
  using Collect = std::function<bool()>;

  /// Writes the noted ports if their time has come. When that is, in ns of now_ns(); 0: nothing is
  /// noted.
  std::uint64_t progress(SharedState& shared, const std::filesystem::path& fabric,
                         std::uint64_t now, const Collect& collect);

  void write_all(SharedState& shared, const std::filesystem::path& fabric, const Collect& collect);

 private:
  bool enter(std::uint32_t port);
  std::vector<std::uint32_t> take();
  void publish(SharedState& shared, const std::filesystem::path& fabric,
               const std::vector<std::uint32_t>& ports);

  std::array<std::atomic<bool>, kMaxFabricPorts> noted_{};
  std::mutex writing_;  // from the taking of ports until their files are written
  std::mutex mutex_;    // guards what follows; taken with `writing_` held
  std::vector<std::uint32_t> ports_;
  std::uint64_t due_ns_ = 0;  // 0: the helper thread does not know of anything to write
  bool woken_ = false;
  bool some_left_ = false;  // not all could be collected last time
};

}  // namespace hbmwire::emulation::nic
