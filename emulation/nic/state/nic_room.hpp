// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// The NIC that an object belongs to, and the most objects of that kind that the NIC has.
struct NicRoom {
  static constexpr std::uint64_t kAsTheTable = ~std::uint64_t{0};

  std::uint32_t nic = 0;  ///< number of its first port in the fabric
  std::uint64_t most = kAsTheTable;
};

/// Whether the NIC may have one more object, counted over all living processes. The caller holds
/// Header::allocation. Walks over all records, unless the NIC has as many as the table.
template <typename Record, std::size_t N, typename Use>
bool has_room(Process& process, Record (&table)[N], const Use& use, const NicRoom& room) {
  if (room.most == NicRoom::kAsTheTable) return true;
  std::uint64_t count = 0;
  for (Record& record : in_use(table, use))
    count += record.nic == room.nic && process.alive(record.owner.load()) ? 1U : 0U;
  return count < room.most;
}

}  // namespace hbmwire::emulation::nic
