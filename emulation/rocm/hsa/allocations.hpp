// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "emulation/rocm/abi/hsa.h"
#include "emulation/rocm/hsa/block_heap.hpp"

namespace hbmwire::emulation::rocm {

/// Who has an allocation: the host, or a GPU by its place in devices().
inline constexpr unsigned kHost = ~0U;

struct Notifier {
  void* address = nullptr;  ///< as the program gave it
  hsa_amd_deallocation_callback_t callback = nullptr;
  void* data = nullptr;
};

struct AllocationRecord {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;           ///< as asked for
  std::uint64_t occupied_bytes = 0;  ///< in whole pages
  unsigned owner = kHost;
  Fragment fragment;  ///< of a GPU's memory
  std::uint32_t global_flags = 0;
  std::vector<hsa_agent_t> accessible;
  void* user_data = nullptr;
  std::vector<Notifier> notifiers;
  std::optional<ShareKey> shared_as;  ///< has a handle for other processes
  bool attached = false;              ///< another process's
  bool shown = false;                 ///< a GPU's memory that the CPU has been let into
};

/// Lets the CPU into a GPU's memory, through its large BAR, or keeps it out. False when there is no
/// room for another mapping.
bool show_to_cpu(AllocationRecord& record, bool shown);

/// Host memory that a program has pinned for its GPUs, which see it at another address.
struct LockRecord {
  std::uint64_t host = 0;
  std::uint64_t seen_at = 0;
  std::uint64_t bytes = 0;
  unsigned count = 0;
};

/// Where a GPU's engine finds the bytes of an address of its own.
struct EngineView {
  GpuMemory* memory = nullptr;  ///< null: they are the host's
  std::uint64_t offset = 0;     ///< in the GPU's memory
  std::byte* host = nullptr;
};

/// All memory that one session of ROCr knows. Thread-safe.
class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  /// 0 when there is no memory.
  std::uint64_t allocate(unsigned owner, std::uint64_t bytes, const AllocationRecord& like);

  /// Offers a GPU's allocation, of which these are all bytes, to other processes. -EINVAL: it is
  /// not that. -ENOMEM, -EBUSY.
  int share(std::uint64_t base, std::uint64_t bytes, ShareKey& key);

  /// What another process offers; its address, or 0 with an error. -ENOENT: nobody offers it;
  /// -EINVAL: `bytes` are not all of it.
  std::uint64_t attach(unsigned owner, const ShareKey& key, std::uint64_t bytes,
                       const AllocationRecord& like, int& error);

  /// False when this was not attached.
  bool detach(std::uint64_t base) { return remove(base, true); }

  /// Notifiers are called without any lock, when nobody finds the allocation any more, and before
  /// its address can be another's (ROCr, Runtime::FreeMemory). False when there was none, or it is
  /// another process's.
  bool free(std::uint64_t base) { return remove(base, false); }

  /// What `visit` does with the allocation that `address` is in; false without one.
  bool visit(std::uint64_t address, const std::function<void(AllocationRecord&)>& visit);

  /// The same, beside others that look: programs ask about each of their addresses.
  template <typename Look>
  bool look(std::uint64_t address, Look look) {
    const std::shared_lock lock(mutex_);
    const AllocationRecord* const record = find(address);
    if (record == nullptr) return false;
    look(*record);
    return true;
  }

  /// The address at which GPUs see the range; 0 when there is no room.
  std::uint64_t lock(std::uint64_t host, std::uint64_t bytes);
  bool unlock(std::uint64_t host);
  std::optional<LockRecord> find_lock(std::uint64_t address);

  /// Runs `copy` with the views of both ranges, which stay until it returns. False when the GPU
  /// finds nothing at one of them.
  bool with_views(std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
                  const std::function<void(const EngineView& to, const EngineView& from)>& copy);

  /// For tests: allocations of an owner, and locks.
  std::uint64_t count(unsigned owner);
  std::uint64_t count_locks();

 private:
  AllocationRecord* find(std::uint64_t address);
  std::optional<EngineView> view(std::uint64_t address, std::uint64_t bytes);
  bool remove(std::uint64_t base, bool attached);
  void give_back(const AllocationRecord& record);

  // Engines hold it shared while they copy.
  std::shared_mutex mutex_;
  std::vector<BlockHeap> heaps_;
  std::map<std::uint64_t, AllocationRecord> records_;  // by address
  std::map<std::uint64_t, LockRecord> locks_;          // by the host's address
};

}  // namespace hbmwire::emulation::rocm
