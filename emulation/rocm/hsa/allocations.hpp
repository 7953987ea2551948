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

/// The owner of an allocation: the host, or a GPU's index in devices().
inline constexpr unsigned kHost = ~0U;

/// A callback for the end of an allocation (hsa_amd_register_deallocation_callback).
struct Notifier {
  void* address = nullptr;  ///< as the program passed it
  hsa_amd_deallocation_callback_t callback = nullptr;
  void* data = nullptr;
};

/// An allocation of host or GPU memory, or memory attached from another process.
struct AllocationRecord {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;           ///< as requested
  std::uint64_t occupied_bytes = 0;  ///< rounded up to whole pages
  unsigned owner = kHost;
  Fragment fragment;  ///< for a GPU's memory
  std::uint32_t global_flags = 0;
  std::vector<hsa_agent_t> accessible;
  void* user_data = nullptr;
  std::vector<Notifier> notifiers;
  std::optional<ShareKey> shared_as;  ///< the key of its handle for other processes
  bool attached = false;              ///< belongs to another process
  bool shown = false;                 ///< GPU memory that the CPU may access
};

/// Gives the CPU access to a GPU's memory, through its large BAR, or removes it. Returns false if
/// there is no room for another mapping.
bool show_to_cpu(AllocationRecord& record, bool shown);

/// Host memory that a program has pinned for its GPUs. They see it at another address.
struct LockRecord {
  std::uint64_t host = 0;
  std::uint64_t seen_at = 0;
  std::uint64_t bytes = 0;
  unsigned count = 0;
};

/// The place where a GPU's engine finds the bytes of an address.
struct EngineView {
  GpuMemory* memory = nullptr;  ///< null: host memory
  std::uint64_t offset = 0;     ///< in the GPU's memory
  std::byte* host = nullptr;
};

/// All memory that a session of ROCr knows. Thread-safe.
class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  /// Returns 0 if there is no memory.
  std::uint64_t allocate(unsigned owner, std::uint64_t bytes, const AllocationRecord& like);

  /// Shares a GPU's allocation with other processes. `bytes` must be its whole size. Returns
  /// -EINVAL if it is not such an allocation; -ENOMEM; -EBUSY.
  int share(std::uint64_t base, std::uint64_t bytes, ShareKey& key);

  /// Attaches memory that another process shares. Returns its address, or 0 and sets `error`:
  /// -ENOENT if it is not shared; -EINVAL if `bytes` is not its whole size.
  std::uint64_t attach(unsigned owner, const ShareKey& key, std::uint64_t bytes,
                       const AllocationRecord& like, int& error);

  /// Returns false if it was not attached.
  bool detach(std::uint64_t base) { return remove(base, true); }

  /// Frees an allocation. Its notifiers are called without a lock, when the allocation cannot be
  /// found any more, and before its address can be reused (ROCr, Runtime::FreeMemory). Returns
  /// false if there is none, or it belongs to another process.
  bool free(std::uint64_t base) { return remove(base, false); }

  /// Calls `act` with the allocation that contains `address`. Returns false if there is none.
  bool visit(std::uint64_t address, const std::function<void(AllocationRecord&)>& act);

  /// As visit(), but concurrently with other lookups, because programs ask about each of their
  /// addresses.
  template <typename Read>
  bool inspect(std::uint64_t address, Read read) {
    const std::shared_lock lock(mutex_);
    const AllocationRecord* const record = find(address);
    if (record == nullptr) return false;
    read(*record);
    return true;
  }

  /// Pins host memory. Returns the address at which GPUs see it; 0 if there is no room.
  std::uint64_t lock(std::uint64_t host, std::uint64_t bytes);
  bool unlock(std::uint64_t host);
  std::optional<LockRecord> find_lock(std::uint64_t address);

  /// Calls `copy` with the views of both ranges, which stay valid until it returns. Returns false
  /// if the GPU cannot reach one of them.
  bool with_views(std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
                  const std::function<void(const EngineView& to, const EngineView& from)>& copy);

  /// For tests: the number of an owner's allocations, and of locks.
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
