// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace hbmwire::emulation::nic {

class Cm;
struct CmId;

/// What the kernel's CM does without being asked: resolutions and requests that time out, the end
/// of timewait, requests sent again, and peers that are dead. One helper thread does it for a
/// process, started with the first id that can need it; it sleeps for good while there is none.
class CmTimer {
 public:
  explicit CmTimer(Cm& cm) : cm_(cm) {}

  /// An id of this process may have something due from now on.
  void watch();

 private:
  void run();

  /// Does what is due; nanoseconds until it must be called again, 0: not until watch().
  std::uint64_t tick();

  /// The same for one id that needs the timer.
  std::uint64_t tick_one(CmId& id, std::uint64_t now);

  Cm& cm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t watched_ = 0;
  bool started_ = false;
};

}  // namespace hbmwire::emulation::nic
