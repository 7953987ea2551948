// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hbmwire/memory.hpp"
#include "hbmwire/memory_domain.hpp"

#include "base/shared_file.hpp"

namespace hbmwire::memory::host {

/// The page size for these options, in bytes.
[[nodiscard]] std::uint64_t page_bytes(const HostMemoryOptions& options) noexcept;

/// "host", or with its special properties: "host (2 MiB pages, shared, node 1)".
[[nodiscard]] std::string name_of(const HostMemoryOptions& options);

/// Whether this machine has such memory. Errors: Stage::open (the kernel has no huge pages of this
/// size, or there is no such NUMA node).
Result<void> check(const HostMemoryOptions& options);

/// Mapped host memory, which its destructor unmaps. Move-only.
class Pages {
 public:
  /// Errors: Stage::allocate; Errc::exhausted with the remedy for the limit, before any page is
  /// touched.
  static Result<Pages> map(std::uint64_t size_bytes, const HostMemoryOptions& options,
                           std::string_view subject);

  /// Maps memory that another process has mapped with the option `shared`. Pages that are not
  /// touched cost nothing. Errors: Stage::open, those of SharedFile::open().
  static Result<Pages> open(const SharedFileName& name, std::uint64_t size_bytes,
                            std::string_view subject);

  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept = delete;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  [[nodiscard]] void* address() const noexcept { return address_; }

  /// A multiple of the page size.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// The name by which other processes open it; null if they cannot.
  [[nodiscard]] const SharedFileName* name() const noexcept {
    return file_ ? &file_->name : nullptr;
  }

 private:
  Pages(void* address, std::uint64_t size_bytes, std::optional<SharedFile> file) noexcept
      : address_(address), size_bytes_(size_bytes), file_(std::move(file)) {}

  void* address_;
  std::uint64_t size_bytes_;
  std::uint64_t promised_bytes_ = 0;  // counted against this process's limits, touched or not
  std::optional<SharedFile> file_;    // set for shared memory
};

/// Some bytes of the process.
struct PageRange {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
};

/// Implements MemoryDomain::advise() by madvise(2). Prefetching covers each page that contains a
/// byte of the range, and writes no byte. The advice that memory is not needed for a while covers
/// only pages that lie in the range completely. Errors: Stage::allocate (Errc::not_supported if the
/// kernel has no such advice, or not for such pages).
Result<void> advise(PageRange range, Advice advice, std::uint64_t page_bytes,
                    std::string_view subject);

}  // namespace hbmwire::memory::host
