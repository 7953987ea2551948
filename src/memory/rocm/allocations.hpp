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

/// A dma-buf, and the offset of an allocation in it. ROCr cuts small allocations out of larger
/// blocks, and exports the block: only its answer tells the offset.
struct ExportedBlock {
  std::shared_ptr<const Fd> fd;
  std::uint64_t offset_bytes = 0;
};

/// Facts about ROCr's allocations that ROCr does not store: a generation, which tells apart
/// allocations that had the same address, and the dma-buf. ROCr reports when an allocation is
/// freed, even if the application has made it, and its entry goes then. There is one object for the
/// process: generations must be unique in all of it, and ROCr identifies callbacks by the address
/// alone. Thread-safe.
class Allocations {
 public:
  explicit Allocations(Hsa& hsa) : hsa_(hsa) {}

  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  ~Allocations();

  /// The generation of the live allocation that begins at `base`. 0 if ROCr refuses to report when
  /// it is freed.
  std::uint64_t generation_of(std::uint64_t base);

  /// The allocation's dma-buf: the existing one if it is still in use, else the result of `make()`.
  template <class Make>
  Result<ExportedBlock> dmabuf_of(std::uint64_t base, std::uint64_t generation, Make make) {
    const std::scoped_lock lock(exporting_);
    if (auto block = exported(base, generation)) return std::move(*block);
    HBMWIRE_TRY_ASSIGN(ExportedBlock block, make());
    remember(base, generation, block);
    return block;
  }

 private:
  /// The argument of ROCr's callback. It outlives both sides, whichever goes first.
  struct Watch {
    std::mutex mutex;
    Allocations* owner = nullptr;  // null when the owner has gone
    std::uint64_t generation = 0;
    std::shared_ptr<Watch>* held_by_rocr = nullptr;
  };

  /// The facts about one live allocation.
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
  std::mutex exporting_;  // held while a callback is registered or a dma-buf is made; taken first
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t next_generation_ = 1;
};

}  // namespace hbmwire::memory::rocm
