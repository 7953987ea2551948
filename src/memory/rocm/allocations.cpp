// SPDX-License-Identifier: MIT
#include "memory/rocm/allocations.hpp"

#include <bit>
#include <utility>

#include "base/guarded.hpp"

namespace hbmwire::memory::rocm {

namespace {

void* pointer_to(std::uint64_t address) { return std::bit_cast<void*>(address); }

}  // namespace

Allocations::~Allocations() {
  std::map<std::uint64_t, Entry> entries;
  {
    const std::scoped_lock lock(mutex_);
    entries = std::exchange(entries_, {});
  }
  for (auto& [base, entry] : entries) {
    {
      // A callback that has begun already does nothing after this.
      const std::scoped_lock lock(entry.watch->mutex);
      entry.watch->owner = nullptr;
    }
    if (hsa_.deregister_deallocation(pointer_to(base), &on_freed) == kHsaSuccess)
      delete entry.watch->held_by_rocr;
  }
}

// ROCr calls this without holding its locks: after it has removed the address from its tables, and
// before another allocation can get it.
void Allocations::on_freed(void* address, void* data) {
  const std::unique_ptr<std::shared_ptr<Watch>> held(static_cast<std::shared_ptr<Watch>*>(data));
  const std::shared_ptr<Watch> watch = *held;
  const std::scoped_lock lock(watch->mutex);
  if (watch->owner != nullptr)
    watch->owner->forget(std::bit_cast<std::uint64_t>(address), watch->generation);
}

std::uint64_t Allocations::known_generation(std::uint64_t base) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(base);
  return found == entries_.end() ? 0 : found->second.generation;
}

std::uint64_t Allocations::generation_of(std::uint64_t base) {
  if (const std::uint64_t known = known_generation(base)) return known;
  const std::scoped_lock registering(exporting_);  // one watch for each allocation
  if (const std::uint64_t known = known_generation(base)) return known;
  auto watch = std::make_shared<Watch>();
  watch->owner = this;
  std::unique_lock lock(mutex_);
  watch->generation = next_generation_++;
  // Entered first, because the allocation may be freed as soon as ROCr has the callback.
  entries_[base] = {
      .generation = watch->generation, .watch = watch, .dmabuf = {}, .offset_bytes = 0};
  lock.unlock();
  auto held = or_undo([&] { return std::make_unique<std::shared_ptr<Watch>>(watch); },
                      [&] { forget(base, watch->generation); });
  watch->held_by_rocr = held.get();
  if (hsa_.register_deallocation(pointer_to(base), &on_freed, held.get()) != kHsaSuccess) {
    forget(base, watch->generation);
    return 0;
  }
  static_cast<void>(held.release());  // now owned by ROCr
  return watch->generation;
}

void Allocations::forget(std::uint64_t base, std::uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(base);
  if (found != entries_.end() && found->second.generation == generation) entries_.erase(found);
}

std::optional<ExportedBlock> Allocations::exported(std::uint64_t base, std::uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(base);
  if (found == entries_.end() || found->second.generation != generation) return std::nullopt;
  auto fd = found->second.dmabuf.lock();
  if (!fd) return std::nullopt;
  return ExportedBlock{.fd = std::move(fd), .offset_bytes = found->second.offset_bytes};
}

void Allocations::remember(std::uint64_t base, std::uint64_t generation,
                           const ExportedBlock& block) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(base);
  if (found == entries_.end() || found->second.generation != generation) return;
  found->second.dmabuf = block.fd;
  found->second.offset_bytes = block.offset_bytes;
}

}  // namespace hbmwire::memory::rocm
