// SPDX-License-Identifier: MIT
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace hbmwire::emulation::nic {

class Cm;
struct CmId;

/// Does the work that the kernel's CM does on its own: resolutions and requests time out, timewait
/// ends, requests are sent again, and dead peers are noticed. A process has one helper thread for
/// this. It is started with the first id that can need it, and sleeps without a deadline while no
/// id needs it.
class CmTimer {
 public:
  explicit CmTimer(Cm& cm) : cm_(cm) {}

  /// Says that an id of this process may have something due.
  void watch();

 private:
  void run();

  /// Does the work that is due. Returns the ns until the next call is needed; 0: not before
  /// watch().
  std::uint64_t tick();

  /// As tick(), for one id that needs the timer.
  std::uint64_t tick_one(CmId& id, std::uint64_t now);

  Cm& cm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t watched_ = 0;  // counts the calls of watch()
  bool started_ = false;
};

}  // namespace hbmwire::emulation::nic
