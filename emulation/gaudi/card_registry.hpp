// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "emulation/gaudi/card.hpp"

namespace hbmwire::emulation::gaudi {

/// The one lock of this process. Forking with it held by another thread is safe: fork() waits for
/// it.
std::mutex& process_mutex();

/// The cards of this process's world, found in its sysfs tree. Cards once found live until the
/// process ends, so that threads and fds may refer to them at any time.
class CardRegistry {
 public:
  static CardRegistry& instance();

  /// The cards that sysfs lists now, by index; empty outside an emulated world.
  std::vector<Card*> cards();
  /// The card with that accel index, or nullptr.
  Card* by_index(unsigned index);
  /// By "bb:dd.f" or "dddd:bb:dd.f"; nullptr when there is none.
  Card* by_pci_address(std::string_view address);
  Card* by_module_id(std::uint32_t module_id);

  /// The card that an fd belongs to, however this process came by it: nullptr with errno EBADF for
  /// a closed fd, with ENOTTY for an fd of something else.
  Card* by_fd(int fd);

  void for_each_known(const std::function<void(Card&)>& visit);

 private:
  CardRegistry();
  Card* known(const CardIdentity& identity);

  std::vector<std::unique_ptr<Card>> known_;
};

/// Whether the fd is the exclusive one (hlthunk_open) and not one of hlthunk_open_control.
bool is_primary(int fd);

}  // namespace hbmwire::emulation::gaudi
