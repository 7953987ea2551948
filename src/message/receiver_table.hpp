// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

namespace hbmwire::detail {

class Receiver;

/// The receivers of lanes by the number of their queue pair, which is all that a completion of a
/// shared receive tells. Open addressing: numbers lie close to each other, so that most are found
/// at once.
class ReceiverTable {
 public:
  /// Null: there is none.
  [[nodiscard]] Receiver* find(std::uint32_t queue_pair) const noexcept {
    for (std::size_t at = queue_pair & mask_;; at = (at + 1) & mask_) {
      const Entry& entry = entries_[at];
      if (entry.queue_pair == queue_pair || entry.queue_pair == 0) return entry.receiver;
    }
  }

  /// `queue_pair`: not 0. May throw std::bad_alloc.
  void add(std::uint32_t queue_pair, Receiver& receiver);

  /// One that is there.
  void remove(std::uint32_t queue_pair) noexcept;

 private:
  struct Entry {
    std::uint32_t queue_pair = 0;  // 0: free
    Receiver* receiver = nullptr;
  };

  void put(const Entry& entry) noexcept;

  std::vector<Entry> entries_ = std::vector<Entry>(16);  // at most half of them are taken
  std::size_t mask_ = 15;
  std::size_t count_ = 0;
};

}  // namespace hbmwire::detail
