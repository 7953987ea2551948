// SPDX-License-Identifier: MIT
#include "message/receiver_table.hpp"

#include <utility>

namespace hbmwire::detail {

void ReceiverTable::add(std::uint32_t queue_pair, Receiver& receiver) {
  if (2 * (count_ + 1) > entries_.size()) {
    const auto before = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
    mask_ = entries_.size() - 1;
    for (const Entry& entry : before) {
      if (entry.queue_pair != 0) put(entry);
    }
  }
  put({queue_pair, &receiver});
  ++count_;
}

void ReceiverTable::put(const Entry& entry) noexcept {
  std::size_t at = entry.queue_pair & mask_;
  while (entries_[at].queue_pair != 0) at = (at + 1) & mask_;
  entries_[at] = entry;
}

void ReceiverTable::remove(std::uint32_t queue_pair) noexcept {
  std::size_t at = queue_pair & mask_;
  while (entries_[at].queue_pair != queue_pair) at = (at + 1) & mask_;
  entries_[at] = {};
  --count_;
  // Entries behind the removed one may be there only because its place was taken: puts them in
  // again.
  for (at = (at + 1) & mask_; entries_[at].queue_pair != 0; at = (at + 1) & mask_)
    put(std::exchange(entries_[at], {}));
}

}  // namespace hbmwire::detail
