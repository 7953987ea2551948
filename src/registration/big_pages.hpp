// SPDX-License-Identifier: MIT
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace hbmwire::detail {

/// Memory for tables that are looked into all over: in big pages where the kernel gives them, since
/// with small ones most of such a look is spent on finding the page. A std::allocator.
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
    ::madvise(memory, whole, MADV_HUGEPAGE);  // small ones do as well
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
