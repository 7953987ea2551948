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

/// The size of the pages that these options mean.
[[nodiscard]] std::uint64_t page_bytes(const HostMemoryOptions& options) noexcept;

/// "host", or with what makes it special: "host (2 MiB pages, shared, node 1)".
[[nodiscard]] std::string name_of(const HostMemoryOptions& options);

/// Whether this machine has such memory. Errors: Stage::open: a kernel without huge pages of this
/// size, no such NUMA node.
Result<void> check(const HostMemoryOptions& options);

/// Mapped host memory; unmapped with this object. Move-only.
class Pages {
 public:
  /// Errors: Stage::allocate; Errc::exhausted with the limit's remedy, before any page is touched.
  static Result<Pages> map(std::uint64_t size_bytes, const HostMemoryOptions& options,
                           std::string_view subject);

  /// What another process has mapped so, with `shared`; the parts that are not touched cost
  /// nothing. Errors: Stage::open, as SharedFile::open().
  static Result<Pages> open(const SharedFileName& name, std::uint64_t size_bytes,
                            std::string_view subject);

  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept = delete;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  [[nodiscard]] void* address() const noexcept { return address_; }

  /// Whole pages.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }

  /// By which other processes open it; null: none can.
  [[nodiscard]] const SharedFileName* name() const noexcept {
    return file_ ? &file_->name : nullptr;
  }

 private:
  Pages(void* address, std::uint64_t size_bytes, std::optional<SharedFile> file) noexcept
      : address_(address), size_bytes_(size_bytes), file_(std::move(file)) {}

  void* address_;
  std::uint64_t size_bytes_;
  std::uint64_t promised_bytes_ = 0;  // of this process's limits, touched or not
  std::optional<SharedFile> file_;    // of shared memory
};

/// Some bytes of the process.
struct PageRange {
  std::uint64_t address = 0;
  std::uint64_t length_bytes = 0;
};

/// MemoryDomain::advise() by madvise(2): prefetched is each page that a byte of the range lies in,
/// without a byte being written; not needed for a while are those that the range fills. Errors:
/// Stage::allocate: Errc::not_supported where the kernel has no such advice, or not for such pages.
Result<void> advise(PageRange range, Advice advice, std::uint64_t page_bytes,
                    std::string_view subject);

}  // namespace hbmwire::memory::host
