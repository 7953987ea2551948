// SPDX-License-Identifier: MIT
#include "emulation/rocm/hsa/allocations.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <mutex>

#include "emulation/common/ranges.hpp"

namespace hbmwire::emulation::rocm {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t map_pages(std::uint64_t bytes, int protection) {
  void* const pages =
      ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? 0 : std::bit_cast<std::uint64_t>(pages);
}

void unmap_pages(std::uint64_t base, std::uint64_t bytes) {
  ::munmap(std::bit_cast<void*>(base), bytes);
}

/// The whole pages that a lock covers.
AddressRange pages_of(std::uint64_t address, std::uint64_t bytes) {
  return {round_down(address, kPage), round_up(address + bytes, kPage)};
}

}  // namespace

bool show_to_cpu(AllocationRecord& record, bool shown) {
  if (record.shown == shown) return true;
  if (shown) {
    record.shown = record.fragment.block->show(record.base, record.occupied_bytes);
    return record.shown;
  }
  Block::hide(record.base, record.occupied_bytes);
  record.shown = false;
  return true;
}

Allocations::Allocations() {
  for (const auto& device : devices()) heaps_.emplace_back(*device);
}

Allocations::~Allocations() {
  for (const auto& [base, record] : records_) give_back(record);
  for (const auto& [host, lock] : locks_) {
    const AddressRange pages = pages_of(lock.seen_at, lock.bytes);
    unmap_pages(pages.begin, pages.bytes());
  }
}

std::uint64_t Allocations::allocate(unsigned owner, std::uint64_t bytes,
                                    const AllocationRecord& like) {
  if (bytes > PTRDIFF_MAX) return 0;
  AllocationRecord record = like;
  record.bytes = bytes;
  record.occupied_bytes = round_up(bytes, kPage);
  record.owner = owner;
  const std::lock_guard lock(mutex_);
  if (owner == kHost) {
    record.base = map_pages(record.occupied_bytes, PROT_READ | PROT_WRITE);
  } else {
    record.fragment = heaps_[owner].allocate(record.occupied_bytes);
    record.base = record.fragment.address;
  }
  const std::uint64_t base = record.base;
  if (base != 0) records_[base] = std::move(record);
  return base;
}

int Allocations::share(std::uint64_t base, std::uint64_t bytes, ShareKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(base);
  if (found == records_.end()) return -EINVAL;
  AllocationRecord& record = found->second;
  if (record.owner == kHost || record.attached || record.bytes != bytes) return -EINVAL;
  if (!record.shared_as) {
    const Block& block = *record.fragment.block;
    ShareKey made{};
    const int error = block.memory().share(
        {block.range().offset_bytes + (record.base - block.base()), bytes}, made);
    if (error != 0) return error;
    record.shared_as = made;
  }
  key = *record.shared_as;
  return 0;
}

std::uint64_t Allocations::attach(unsigned owner, const ShareKey& key, std::uint64_t bytes,
                                  const AllocationRecord& like, int& error) {
  AllocationRecord record = like;
  record.attached = true;
  record.owner = owner;
  record.fragment.block = Block::attach(*devices()[owner], key, error);
  if (!record.fragment.block) return 0;
  const Block& block = *record.fragment.block;
  record.base = record.fragment.address = block.base();
  record.bytes = block.range().length_bytes;
  record.occupied_bytes = record.bytes;
  error = record.bytes == bytes ? 0 : -EINVAL;
  if (error != 0) return 0;
  const std::lock_guard lock(mutex_);
  const std::uint64_t base = record.base;
  records_[base] = std::move(record);
  return base;
}

void Allocations::give_back(const AllocationRecord& record) {
  // Takes the memory from the CPU before another allocation can reuse its addresses or pages.
  if (record.shown) Block::hide(record.base, record.occupied_bytes);
  if (record.owner == kHost) {
    unmap_pages(record.base, record.occupied_bytes);
  } else if (record.attached) {
    return;  // the last reference to the fragment's block detaches the memory
  } else if (record.shared_as && record.fragment.block->memory().unshare(*record.shared_as)) {
    heaps_[record.owner].withdraw(record.fragment);
  } else {
    heaps_[record.owner].free(record.fragment);
  }
}

bool Allocations::remove(std::uint64_t base, bool attached) {
  std::unique_lock lock(mutex_);
  const auto found = records_.find(base);
  if (found == records_.end() || found->second.attached != attached) return false;
  const auto node = records_.extract(found);
  lock.unlock();
  for (const Notifier& notifier : node.mapped().notifiers)
    notifier.callback(notifier.address, notifier.data);
  lock.lock();
  give_back(node.mapped());
  return true;
}

AllocationRecord* Allocations::find(std::uint64_t address) {
  const auto after = records_.upper_bound(address);
  if (after == records_.begin()) return nullptr;
  AllocationRecord& record = std::prev(after)->second;
  return address - record.base < record.occupied_bytes ? &record : nullptr;
}

bool Allocations::visit(std::uint64_t address, const std::function<void(AllocationRecord&)>& act) {
  const std::lock_guard lock(mutex_);
  AllocationRecord* const record = find(address);
  if (record == nullptr) return false;
  act(*record);
  return true;
}

std::uint64_t Allocations::lock(std::uint64_t host, std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  if (const auto known = locks_.find(host); known != locks_.end() && known->second.bytes == bytes) {
    ++known->second.count;
    return known->second.seen_at;
  }
  if (locks_.contains(host)) return 0;
  const AddressRange pages = pages_of(host, bytes);
  const std::uint64_t base = map_pages(pages.bytes(), PROT_NONE);
  if (base == 0) return 0;
  const std::uint64_t seen_at = base + host % kPage;
  locks_[host] = {.host = host, .seen_at = seen_at, .bytes = bytes, .count = 1};
  return seen_at;
}

bool Allocations::unlock(std::uint64_t host) {
  const std::lock_guard guard(mutex_);
  const auto found = locks_.find(host);
  if (found == locks_.end()) return false;
  if (--found->second.count != 0) return true;
  const AddressRange pages = pages_of(found->second.seen_at, found->second.bytes);
  unmap_pages(pages.begin, pages.bytes());
  locks_.erase(found);
  return true;
}

// Finds a lock by the host's address or the GPU's, because programs ask about both.
std::optional<LockRecord> Allocations::find_lock(std::uint64_t address) {
  const std::shared_lock guard(mutex_);
  for (const auto& [host, lock] : locks_) {
    if (holds(lock.host, lock.bytes, address, 1) || holds(lock.seen_at, lock.bytes, address, 1))
      return lock;
  }
  return std::nullopt;
}

std::optional<EngineView> Allocations::view(std::uint64_t address, std::uint64_t bytes) {
  if (const AllocationRecord* const record = find(address)) {
    if (!holds(record->base, record->occupied_bytes, address, bytes)) return std::nullopt;
    if (record->owner == kHost)
      return EngineView{.memory = nullptr, .offset = 0, .host = std::bit_cast<std::byte*>(address)};
    const Block& block = *record->fragment.block;
    return EngineView{.memory = &block.memory(),
                      .offset = block.range().offset_bytes + (address - block.base()),
                      .host = nullptr};
  }
  // GPUs cannot reach host memory that is not locked.
  for (const auto& [host, lock] : locks_) {
    if (!holds(lock.seen_at, lock.bytes, address, bytes)) continue;
    return EngineView{.memory = nullptr,
                      .offset = 0,
                      .host = std::bit_cast<std::byte*>(lock.host + (address - lock.seen_at))};
  }
  return std::nullopt;
}

bool Allocations::with_views(
    std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
    const std::function<void(const EngineView& to, const EngineView& from)>& copy) {
  const std::shared_lock guard(mutex_);
  const auto destination = view(to, bytes);
  const auto source = view(from, bytes);
  if (!destination || !source) return false;
  copy(*destination, *source);
  return true;
}

std::uint64_t Allocations::count(unsigned owner) {
  const std::shared_lock guard(mutex_);
  return static_cast<std::uint64_t>(std::ranges::count_if(records_, [owner](const auto& entry) {
    return entry.second.owner == owner && !entry.second.attached;
  }));
}

std::uint64_t Allocations::count_locks() {
  const std::shared_lock guard(mutex_);
  return locks_.size();
}

}  // namespace hbmwire::emulation::rocm
