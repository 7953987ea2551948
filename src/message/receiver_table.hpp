// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::detail {

class Receiver;

/// Finds the receiver of a lane by the number of its queue pair, which is all that a completion of
/// a shared receive tells. Open addressing: the numbers lie close to each other, so most are found
/// at the first place.
class ReceiverTable {
 public:
  /// Null if there is none.
  [[nodiscard]] Receiver* find(std::uint32_t queue_pair) const noexcept {
    for (std::size_t at = queue_pair & mask_;; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.queue_pair == queue_pair || entry.queue_pair == 0) return entry.receiver;
    }
  }

  /// `queue_pair`: not 0. May throw std::bad_alloc.
  void add(std::uint32_t queue_pair, Receiver& receiver);

  /// Removes an entry that must exist.
  void remove(std::uint32_t queue_pair) noexcept;

 private:
  struct Entry {
    std::uint32_t queue_pair = 0;  // 0: the entry is free
    Receiver* receiver = nullptr;
  };

  void put(const Entry& entry) noexcept;

  std::vector<Entry> entries_ = std::vector<Entry>(16);  // at most half of them are taken,
                                                         // so find() always ends
  std::size_t mask_ = 15;                                // the size of `entries_` - 1
  std::size_t count_ = 0;                                // taken entries
};

}  // namespace hbmwire::detail
