// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace hbmwire::detail {

/// A std::allocator for tables with random accesses. Asks the kernel for big pages, because with
/// small ones most of the time of a random access goes to finding the page.
template <class T>
class BigPageAllocator {
 public:
  using value_type = T;

  BigPageAllocator() noexcept = default;

  template <class U>
  BigPageAllocator(const BigPageAllocator<U>& /*other*/) noexcept {}  // NOLINT: as allocators are

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kBigPage) return std::allocator<T>().allocate(count);
    const std::size_t whole = (bytes + kBigPage - 1) / kBigPage * kBigPage;
    void* const memory = std::aligned_alloc(kBigPage, whole);
    if (memory == nullptr) throw std::bad_alloc();
    ::madvise(memory, whole, MADV_HUGEPAGE);  // without big pages the table works, too
    return static_cast<T*>(memory);
  }

  void deallocate(T* memory, std::size_t count) noexcept {
    if (count * sizeof(T) < kBigPage) return std::allocator<T>().deallocate(memory, count);
    std::free(memory);
  }

  bool operator==(const BigPageAllocator&) const noexcept = default;

 private:
  static constexpr std::size_t kBigPage = std::size_t{2} << 20U;
};

}  // namespace hbmwire::detail
