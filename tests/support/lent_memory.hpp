// SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hbmwire::test {

/// A file mapping of the application, which it takes away while the library uses it. Its addresses
/// stay reserved, so that no other memory gets them.
class LentMemory {
 public:
  enum class How : std::uint8_t {
    unmapped,   ///< any access fails
    truncated,  ///< the file is shorter than its mapping
    read_only,
  };

  explicit LentMemory(std::size_t size_bytes)
      : file_(::memfd_create("lent", MFD_CLOEXEC)), size_bytes_(size_bytes) {
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(size_bytes)), 0);
    memory_ = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }

  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  ~LentMemory() {
    ::munmap(memory_, size_bytes_);
    ::close(file_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size_bytes_}; }

  /// Takes away everything from `offset` on, which must be a multiple of the page size.
  void take_away(How how, std::size_t offset = 0) const {
    std::byte* const from = data() + offset;
    const std::size_t bytes = size_bytes_ - offset;
    switch (how) {
      case How::unmapped:
        EXPECT_EQ(::mmap(from, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                  from);
        return;
      case How::truncated:
        EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(offset)), 0);
        return;
      case How::read_only:
        EXPECT_EQ(::mprotect(from, bytes, PROT_READ), 0);
        return;
    }
  }

 private:
  int file_;
  std::size_t size_bytes_;
  void* memory_ = nullptr;
};

}  // namespace hbmwire::test
