// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "hbmwire/memory.hpp"

#include "memory/rocm/hsa.hpp"

namespace hbmwire::memory::rocm {

/// A dma-buf, and where an allocation begins in it. ROCr cuts small allocations out of larger
/// blocks, and what it exports is the block: only its answer tells the place.
struct ExportedBlock {
  std::shared_ptr<const Fd> fd;
  std::uint64_t offset_bytes = 0;
};

/// What is known of ROCr's allocations beyond what ROCr itself tells: which one it is of those that
/// had the same address, and its dma-buf. ROCr says when an allocation is freed, whoever made it,
/// and all of this goes with it. One object for the process: generations differ in all of it, and
/// ROCr tells callbacks apart by address alone. Thread-safe.
class Allocations {
 public:
  explicit Allocations(Hsa& hsa) : hsa_(hsa) {}

  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  ~Allocations();

  /// Of the allocation that begins at `base`, which is live now. 0 where ROCr refuses to say when
  /// it is freed.
  std::uint64_t generation_of(std::uint64_t base);

  /// Its dma-buf: the one that somebody still uses, or what `make()` gives.
  template <class Make>
  Result<ExportedBlock> dmabuf_of(std::uint64_t base, std::uint64_t generation, Make make) {
    const std::scoped_lock lock(exporting_);
    if (auto block = exported(base, generation)) return std::move(*block);
    HBMWIRE_TRY_ASSIGN(ExportedBlock block, make());
    remember(base, generation, block);
    return block;
  }

 private:
  /// What ROCr's callback is given: outlives whichever of the two sides goes first.
  struct Watch {
    std::mutex mutex;
    Allocations* owner = nullptr;  // null once it has gone
    std::uint64_t generation = 0;
    std::shared_ptr<Watch>* held_by_rocr = nullptr;
  };

  struct Entry {
    std::uint64_t generation = 0;
    std::shared_ptr<Watch> watch;
    std::weak_ptr<const Fd> dmabuf;
    std::uint64_t offset_bytes = 0;
  };

  static void on_freed(void* address, void* data);

  std::uint64_t known_generation(std::uint64_t base);
  void forget(std::uint64_t base, std::uint64_t generation);
  std::optional<ExportedBlock> exported(std::uint64_t base, std::uint64_t generation);
  void remember(std::uint64_t base, std::uint64_t generation, const ExportedBlock& block);

  Hsa& hsa_;
  std::mutex exporting_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_generation_ = 1;
};

}  // namespace hbmwire::memory::rocm
