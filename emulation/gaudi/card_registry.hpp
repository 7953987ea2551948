// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "emulation/gaudi/card.hpp"

namespace hbmwire::emulation::gaudi {

/// The lock for this process' registry and cards. fork() takes it, so a child never inherits it
/// locked.
std::mutex& process_mutex();

/// The cards of this process's world, found in its sysfs tree. A card stays alive until the process
/// ends, so that threads and fds may refer to it at any time.
class CardRegistry {
 public:
  static CardRegistry& instance();

  /// The cards that sysfs lists now, by index. Empty outside an emulated world.
  std::vector<Card*> cards();
  /// The card with that accel index, or nullptr.
  Card* by_index(unsigned index);
  /// Finds a card by "bb:dd.f" or "dddd:bb:dd.f". Returns nullptr if there is none.
  Card* by_pci_address(std::string_view address);
  Card* by_module_id(std::uint32_t module_id);

  /// The card of an fd, even one that another process has sent. Returns nullptr with errno EBADF
  /// for a closed fd, or ENOTTY for the fd of another file.
  Card* by_fd(int fd);

  void for_each_known(const std::function<void(Card&)>& visit);

 private:
  CardRegistry();
  /// process_mutex() is held.
  Card* find_or_add(const CardIdentity& identity);

  std::vector<std::unique_ptr<Card>> known_;
};

/// Whether the fd is the exclusive one of hlthunk_open, not one of hlthunk_open_control.
bool is_primary(int fd);

}  // namespace hbmwire::emulation::gaudi
