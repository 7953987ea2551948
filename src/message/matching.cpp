// SPDX-License-Identifier: MIT
#include "message/matching.hpp"

#include <utility>

#include "endpoint/transfer_state.hpp"

namespace hbmwire::detail {

void Matching::make(std::byte* pool, std::uint32_t pool_units, std::uint32_t most_messages) {
  pool_ = UnexpectedPool(pool, pool_units);
  records_.resize(most_messages + pool_units);
  for (UnexpectedMessage& record : records_) record.next = std::exchange(free_record_, &record);
}

}  // namespace hbmwire::detail
