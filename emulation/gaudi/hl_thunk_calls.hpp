// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>

#include "emulation/gaudi/card_registry.hpp"
#include "emulation/gaudi/testing_hooks.hpp"

namespace hbmwire::emulation::gaudi {

/// The head of every entry point that can fail: 0, or the negative errno that the fault plan wants.
inline int injected(const char* call) { return -hbmwire_gaudi_fault(call); }

/// What an ioctl on any fd would find first: the card, and for memory operations that the fd is the
/// primary one (a control node knows INFO only) and that the card works. `card` is set on success;
/// otherwise -errno is returned.
inline int card_for_information(int fd, Card*& card) {
  card = CardRegistry::instance().by_fd(fd);
  return card == nullptr ? -errno : 0;
}

inline int card_for_memory(int fd, Card*& card) {
  if (const int error = card_for_information(fd, card); error != 0) return error;
  if (!is_primary(fd)) return -ENOTTY;
  return card->status() == HL_DEVICE_STATUS_OPERATIONAL ? 0 : -EBUSY;
}

}  // namespace hbmwire::emulation::gaudi
