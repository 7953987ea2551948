// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/host/address_watch.hpp"

namespace hbmwire::memory::host {

constexpr std::uint64_t kPage = 4096;

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr int kShared = MAP_SHARED | MAP_ANONYMOUS;

// Far longer than any step takes, so that only a hang reaches it.
constexpr std::chrono::seconds kPatience{20};

inline void* pointer(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address is what it is about.
  return reinterpret_cast<void*>(address);
}

/// Mapped, writable pages. The destructor unmaps their addresses, except those that were given up,
/// since another thread may use them by then.
class MappedPages {
 public:
  explicit MappedPages(std::uint64_t count, int flags = kPrivate)
      : begin_(map(0, count, flags)), end_(begin_ + count * kPage), kept_(end_) {}

  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

  ~MappedPages() {
    if (kept_ != begin_) ::munmap(pointer(begin_), kept_ - begin_);
  }

  static std::uint64_t map(std::uint64_t address, std::uint64_t count, int flags) {
    void* const memory =
        ::mmap(pointer(address), count * kPage, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uint64_t>(memory);
  }

  /// Unmaps the pages permanently.
  int unmap() { return ::munmap(pointer(begin_), std::exchange(kept_, begin_) - begin_); }

  /// Moves the pages to another address that the kernel chooses, and unmaps them there.
  bool move() {
    const std::uint64_t bytes = std::exchange(kept_, begin_) - begin_;
    const std::uint64_t target = map(0, bytes / kPage, kPrivate);
    void* const moved =
        ::mremap(pointer(begin_), bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(target));
    return ::munmap(moved, bytes) == 0;
  }

  /// Keeps only the first page.
  bool shrink() {
    const std::uint64_t bytes = std::exchange(kept_, begin_ + kPage) - begin_;
    return ::mremap(pointer(begin_), bytes, kPage, 0) != MAP_FAILED;
  }

  [[nodiscard]] AddressRange all() const { return {begin_, end_}; }

  /// A range of some of the pages.
  [[nodiscard]] AddressRange part(std::uint64_t first, std::uint64_t count) const {
    return {begin_ + first * kPage, begin_ + (first + count) * kPage};
  }

  [[nodiscard]] std::uint64_t address() const { return begin_; }

  void fill(char value) const {
    for (std::uint64_t page = begin_; page != end_; page += kPage)
      *static_cast<volatile char*>(pointer(page)) = value;
  }

  /// Maps new pages at the same addresses.
  void renew(int flags = kPrivate) const {
    map(begin_, (end_ - begin_) / kPage, flags | MAP_FIXED);
  }

 private:
  std::uint64_t begin_;
  std::uint64_t end_;
  std::uint64_t kept_;  // the end of the pages that the destructor unmaps
};

inline int unmap(AddressRange range) {
  return ::munmap(pointer(range.begin), range.end - range.begin);
}

inline int advise(AddressRange range, int advice) {
  return ::madvise(pointer(range.begin), range.end - range.begin, advice);
}

/// Whether a userfaultfd watches this page: the mapping then has the flag "uw".
inline bool is_watched(std::uint64_t address) {
  std::ifstream mappings("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(mappings, line);) {
    std::istringstream words(line);
    AddressRange mapping;
    char dash = 0;
    if (words >> std::hex >> mapping.begin >> dash >> mapping.end && dash == '-')
      found = mapping.begin <= address && address < mapping.end;
    if (found && line.starts_with("VmFlags:")) return line.find(" uw") != std::string::npos;
  }
  return false;
}

inline std::vector<AddressRange> taken(AddressWatch& watch, AddressWatch::Cursor& cursor) {
  std::vector<AddressRange> ranges;
  watch.take(cursor, [&](AddressRange range) { ranges.push_back(range); });
  return ranges;
}

/// Waits until the condition holds, or the test's patience ends.
template <class Condition>
bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace hbmwire::memory::host
