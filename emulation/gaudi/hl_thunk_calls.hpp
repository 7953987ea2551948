// SPDX-License-Identifier: MIT
#pragma once

#include <cerrno>

#include "emulation/gaudi/card_registry.hpp"
#include "emulation/gaudi/testing_hooks.hpp"

namespace hbmwire::emulation::gaudi {

/// Begins every entry point that can fail. Returns 0, or the negative errno that the fault plan
/// wants.
inline int injected(const char* call) { return -hbmwire_gaudi_fault(call); }

/// The checks of every ioctl, in its order: the fd belongs to a card; for memory operations also
/// that the fd is a primary one (a control node answers only INFO) and that the card is
/// operational. Sets `card` and returns 0, or returns -errno.
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
