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

/// The properties of an MR to be registered.
struct RegionRequest {
  std::uint64_t pd = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint64_t address = 0;
  std::shared_ptr<Backing> backing;  // null: private memory of this process
  std::uint64_t file_offset = 0;
  std::shared_ptr<PostedWrites> posted;  // of the card that has the memory; null: none
  NicRoom room;
};

/// Registers an MR. Returns the index of its record, or 0 with errno.
std::uint32_t claim_region(Process& process, const RegionRequest& request);

/// Changes all properties of an MR; with `new_key` its key too. After it returns, no byte changes
/// any more through the former MR. Returns 0 or an errno. EBUSY, with the MR unchanged: a window is
/// bound to it, or a process was stopped while it executed a request that may use the MR.
int change_region(Process& process, std::uint32_t index, const RegionRequest& request,
                  bool new_key);

/// Invalidates an MR and frees its record. Returns 0, or EBUSY as change_region().
int release_region(Process& process, std::uint32_t index);

/// The process and the protection domain whose memory an access uses.
struct Party {
  std::uint32_t slot;
  std::uint64_t pd;
};

/// Makes a region useless for everyone, as the revoke of a dma_buf's exporter does. `key` is the
/// region's own, or a window's on it. The region still has to be deregistered. Does nothing for an
/// invalid key.
void revoke_region(Process& process, const Party& party, std::uint32_t key);

/// Maps the files of peers that a sender has lately written to or read from. Guarded by the
/// sender's mutex.
class RegionCache {
 public:
  /// The backing of `mr` in this process, valid until the next call; or null if it cannot be
  /// mapped.
  const Backing* map(Process& process, const MrRecord& mr);

  /// As map(), but only for a backing that is mapped already.
  [[nodiscard]] std::shared_ptr<Backing> find(const MrRecord& mr) const {
    const Entry& entry = entries_[mr.serial % entries_.size()];
    return entry.serial == mr.serial ? entry.backing : nullptr;
  }

  /// The PostedWrites of the card that has the memory of `mr`, or null.
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
  std::unique_ptr<std::array<PostedEntry, 16>> posted_;  // null until it is first needed
};

/// An access to a region. `rights` are IBV_ACCESS_* bits. `qpn` is the QP that the request came in
/// on, or 0 for the consumer's own elements.
struct Access {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t rights = 0;
  std::uint32_t qpn = 0;
};

/// Whether an MR allows an access by the MR's own key, not a window's.
[[gnu::always_inline]] inline bool allows(const MrRecord& mr, const Party& party,
                                          const Access& access) {
  return mr.key.load(std::memory_order_acquire) == access.key &&
         mr.owner.load(std::memory_order_relaxed) == party.slot && mr.pd == party.pd &&
         (access.rights & ~mr.access) == 0 && access.address >= mr.iova &&
         access.length <= mr.length && access.address - mr.iova <= mr.length - access.length;
}

/// Checks an access to [address, address + length) under its key, as an HCA does, and finds where
/// the bytes are. The caller is inside an Activity, which keeps dereg_mr from returning. Returns
/// false if the access is not allowed.
bool resolve(Process& process, RegionCache& cache, const Party& party, const Access& access,
             Segment& segment);

}  // namespace hbmwire::emulation::nic
