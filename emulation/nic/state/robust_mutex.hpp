// SPDX-License-Identifier: MIT
#pragma once

#include "emulation/nic/state/lock_word.hpp"

namespace hbmwire::emulation::nic {

/// A mutex in memory that processes share and that survives the death of its holder: whoever locks
/// next inherits it. What it guards must therefore be harmless when half done; each user says why
/// it is.
class RobustMutex {
 public:
  /// Called once for a lock, before any process can reach it.
  void initialise() noexcept { word_.unlock(); }

  void lock() noexcept { word_.lock(); }

  bool try_lock() noexcept { return word_.try_lock() != LockWord::Taken::no; }

  void unlock() noexcept { word_.unlock(); }

 private:
  LockWord word_;
};

}  // namespace hbmwire::emulation::nic
