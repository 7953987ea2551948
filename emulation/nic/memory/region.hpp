// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulation/common/posted_writes.hpp"
#include "emulation/nic/memory/backing.hpp"
#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/state/nic_room.hpp"
#include "emulation/nic/state/process.hpp"

namespace hbmwire::emulation::nic {

/// What a registration asks the table to hold.
struct RegionRequest {
  std::uint64_t pd = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::shared_ptr<Backing> backing;  // null: private memory of this process
  std::uint64_t file_offset = 0;
  std::shared_ptr<PostedWrites> posted;  // of the card whose memory it is; null: none
  NicRoom room;
};

/// Index of the new record, or 0 with errno.
std::uint32_t claim_region(Process& process, const RegionRequest& request);

/// Changes everything of an MR; `new_key`: its key too. When it returns no byte changes any more by
/// what the MR was before. EBUSY, and it is as it was, while a window is bound to it, or a process
/// was stopped over a request that may use it.
int change_region(Process& process, std::uint32_t index, const RegionRequest& request,
                  bool new_key);

/// Takes the MR out of use, and gives its record back: as above.
int release_region(Process& process, std::uint32_t index);

/// Whose memory an access reaches into, and what it must be allowed to do.
struct Party {
  std::uint32_t slot;
  std::uint64_t pd;
};

/// As an exporter's dma_buf revoke: the region that `party`'s key reaches, or its window's key, is
/// of no use from now on, to anybody. It stays to be deregistered. Nothing for a wrong key.
void revoke_region(Process& process, const Party& party, std::uint32_t key);

/// The files of peers that a sender wrote to or read from lately, mapped. Guarded by the sender's
/// mutex.
class RegionCache {
 public:
  /// The backing of `mr` here, or null when it can't be mapped. It lives until the next call.
  const Backing* map(Process& process, const MrRecord& mr);

  /// The same, of what is mapped already.
  [[nodiscard]] std::shared_ptr<Backing> find(const MrRecord& mr) const {
    const Entry& entry = entries_[mr.serial % entries_.size()];
    return entry.serial == mr.serial ? entry.backing : nullptr;
  }

  /// The PostedWrites of the card whose memory `mr` is, or null.
  PostedWrites* posted(Process& process, const MrRecord& mr);

  void clear() {
    entries_ = {};
    posted_.reset();
  }

 private:
  struct Entry {
    std::uint64_t serial = 0;
    std::shared_ptr<Backing> backing;
  };

  struct PostedEntry {
    std::uint64_t serial = 0;
    std::shared_ptr<PostedWrites> posted;
  };

  std::array<Entry, 16> entries_;
  std::unique_ptr<std::array<PostedEntry, 16>> posted_;  // once there is such memory
};

/// What somebody wants of a region: `rights` are IBV_ACCESS_* bits, `qpn` is the QP that the
/// request came in on, or 0 for the consumer's own elements.
struct Access {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t rights = 0;
  std::uint32_t qpn = 0;
};

/// Whether an MR allows an access, whose key is of no window.
[[gnu::always_inline]] inline bool allows(const MrRecord& mr, const Party& party,
                                          const Access& access) {
  return mr.key.load(std::memory_order_acquire) == access.key &&
         mr.owner.load(std::memory_order_relaxed) == party.slot && mr.pd == party.pd &&
         (access.rights & ~mr.access) == 0 && access.address >= mr.iova &&
         access.length <= mr.length && access.address - mr.iova <= mr.length - access.length;
}

/// Checks an access to [address, address + length) under its key, as an HCA does, and says where
/// its bytes are. The caller is in an Activity, which keeps dereg_mr from returning. False: the
/// access is not allowed.
bool resolve(Process& process, RegionCache& cache, const Party& party, const Access& access,
             Segment& segment);

}  // namespace hbmwire::emulation::nic
