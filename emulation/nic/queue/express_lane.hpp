// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "emulation/nic/memory/backing.hpp"
#include "emulation/nic/state/shared_state.hpp"

namespace hbmwire::emulation::nic {

/// What a sender has found out about the other side and about regions, and what tells it that all
/// that is still so (queue/sender_express.cpp). Guarded by the sender's mutex.
struct ExpressLane {
  /// An MR that was looked up and may be used. As long as its record has that key and that serial
  /// it is what it was.
  struct Region {
    const MrRecord* mr = nullptr;
    std::uint32_t key = 0;
    std::uint64_t serial = 0;
    std::uint64_t first = 0;  // address that requests name, and how many bytes there are
    std::uint64_t length = 0;
    std::uint64_t here = 0;            // where `first` is here, or in that process:
    std::int32_t foreign_pid = 0;      // 0: here
    std::shared_ptr<Backing> backing;  // keeps it there, when it is another process'

    /// Whether it is that of `wanted`, and has all the bytes.
    [[nodiscard, gnu::always_inline]] bool serves(std::uint32_t wanted, std::uint64_t address,
                                                  std::uint64_t bytes) const {
      return wanted == key && mr != nullptr && mr->key.load(std::memory_order_acquire) == key &&
             mr->serial == serial && address >= first && bytes <= length &&
             address - first <= length - bytes;
    }

    [[nodiscard]] std::uint64_t at(std::uint64_t address) const { return here + (address - first); }
  };

  bool open = false;       // what follows is known; all of it is guarded by the responder's lock:
  std::uint32_t turn = 0;  // nobody else took that since (FavouredLock::turn)
  QpRecord* responder = nullptr;
  std::uint32_t responder_owner = 0;
  LifeSign* life = nullptr;                         // the owner's
  const std::atomic<std::uint32_t>* links[2] = {};  // PortRecord::link_changes of both ends

  Region local;
  Region remote;
};

}  // namespace hbmwire::emulation::nic
