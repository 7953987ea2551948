// SPDX-License-Identifier: MIT
#include "memory/host/pages.hpp"

#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/memory_room.hpp"
#include "memory/host/numa.hpp"

namespace hbmwire::memory::host {

namespace {

using Kind = HostMemoryOptions::Pages;

constexpr std::uint64_t k2MiB = std::uint64_t{1} << 21U;
constexpr std::uint64_t k1GiB = std::uint64_t{1} << 30U;
// Bytes. More than an address space has, and small enough that rounding up to pages cannot wrap
// around.
constexpr std::uint64_t kTooMuch = std::uint64_t{1} << 56U;

bool is_huge(const HostMemoryOptions& options) noexcept { return options.pages != Kind::normal; }

/// mmap(2) and memfd_create(2) encode a page size in the same bits.
unsigned size_flag(const HostMemoryOptions& options) noexcept {
  static_assert(MAP_HUGE_SHIFT == MFD_HUGE_SHIFT);
  switch (options.pages) {
    case Kind::normal:
      return 0;
    case Kind::huge_2m:
      return 21U << MAP_HUGE_SHIFT;
    case Kind::huge_1g:
      return 30U << MAP_HUGE_SHIFT;
  }
  return 0;
}

Error map_error(const char* call, int error_number, const HostMemoryOptions& options,
                std::string_view subject) {
  Error error =
      system_error(Stage::allocate, call, error_number, subject,
                   is_huge(options) ? Hint::huge_pages_exhausted : Hint::host_memory_exhausted);
  // EFBIG, EINVAL, EOVERFLOW: so large that the call rejects the number itself.
  if (error.code != Errc::permission_denied) error.code = Errc::exhausted;
  return error;
}

Result<SharedFile> make_file(std::uint64_t size_bytes, const HostMemoryOptions& options,
                             std::string_view subject) {
  const unsigned flags = is_huge(options) ? MFD_HUGETLB | size_flag(options) : 0;
  auto file = SharedFile::create(size_bytes, {.flags = flags});
  if (file) return file;
  return tl::make_unexpected(map_error(file.error().call, file.error().number, options, subject));
}

// Bytes that Pages::map() has mapped, except huge pages. The kernel counts a page as used only when
// it is touched, so untouched ones must be counted here.
std::atomic<std::uint64_t> promised_bytes{0};

std::string in_mib(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

/// The kernel hands out memory that it may not have. It kills the process later, when a page is
/// touched that the cgroup or the machine cannot provide. Huge pages have their own pool, for which
/// populate() takes care.
Result<void> check_room(std::uint64_t size_bytes, const HostMemoryOptions& options,
                        std::string_view subject) {
  // Bytes. Any running process has this much, and small allocations must stay fast.
  constexpr std::uint64_t kSmall = std::uint64_t{16} << 20U;
  if (size_bytes < kSmall || is_huge(options)) return {};
  const MemoryRoom room = memory_room();
  const std::uint64_t promised = promised_bytes.load(std::memory_order_relaxed);
  const std::uint64_t unpromised = room.limit_bytes - std::min(room.limit_bytes, promised);
  const std::uint64_t left = std::min(room.bytes, unpromised);
  if (size_bytes <= left) return {};
  const std::string what =
      std::string(subject) + ", " + in_mib(size_bytes) + " where " + in_mib(left) + " are left";
  return tl::make_unexpected(
      system_error(Stage::allocate, "more than the process can have", ENOMEM, what, room.limit));
}

/// Makes the kernel provide all huge pages now. If the pool of a node or the limit of a cgroup is
/// exhausted, the first touch of a page would end the process (SIGBUS).
Result<void> populate(void* memory, std::uint64_t size_bytes, const HostMemoryOptions& options,
                      std::string_view subject) {
  if (::madvise(memory, size_bytes, MADV_POPULATE_WRITE) == 0) return {};
  if (errno == EINVAL) return {};  // a kernel before 5.14
  return tl::make_unexpected(map_error("madvise(MADV_POPULATE_WRITE)", ENOMEM, options, subject));
}

}  // namespace

std::uint64_t page_bytes(const HostMemoryOptions& options) noexcept {
  switch (options.pages) {
    case Kind::normal:
      return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    case Kind::huge_2m:
      return k2MiB;
    case Kind::huge_1g:
      return k1GiB;
  }
  return 0;
}

std::string name_of(const HostMemoryOptions& options) {
  std::string what;
  const auto add = [&](const std::string& part) { what += (what.empty() ? "" : ", ") + part; };
  if (options.pages == Kind::huge_2m) add("2 MiB pages");
  if (options.pages == Kind::huge_1g) add("1 GiB pages");
  if (options.shared) add("shared");
  if (options.numa_node != -1) add("node " + std::to_string(options.numa_node));
  return what.empty() ? "host" : "host (" + what + ")";
}

Result<void> check(const HostMemoryOptions& options) {
  HBMWIRE_TRY(check_node(options.numa_node));
  if (!is_huge(options)) return {};
  const std::string pool =
      "/sys/kernel/mm/hugepages/hugepages-" + std::to_string(page_bytes(options) >> 10U) + "kB";
  std::error_code failure;
  if (std::filesystem::exists(pool, failure)) return {};
  return tl::make_unexpected(make_error(Errc::not_supported, Stage::open,
                                        "the kernel has no pages of this size", name_of(options),
                                        Hint::no_huge_pages));
}

Result<Pages> Pages::map(std::uint64_t size_bytes, const HostMemoryOptions& options,
                         std::string_view subject) {
  if (size_bytes > kTooMuch)
    return tl::make_unexpected(map_error("mmap", ENOMEM, options, subject));
  const std::uint64_t page = page_bytes(options);
  const std::uint64_t whole = (size_bytes + page - 1) / page * page;
  HBMWIRE_TRY(check_room(whole, options, subject));
  std::optional<SharedFile> file;
  if (options.shared) {
    HBMWIRE_TRY_ASSIGN(file, make_file(whole, options, subject));
  }
  unsigned flags = options.shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (is_huge(options) && !options.shared) flags |= MAP_HUGETLB | size_flag(options);
  void* const memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, static_cast<int>(flags),
                              file ? file->fd.get() : -1, 0);
  if (memory == MAP_FAILED) return tl::make_unexpected(map_error("mmap", errno, options, subject));
  Pages pages(memory, whole, std::move(file));
  if (!is_huge(options)) {
    pages.promised_bytes_ = whole;
    promised_bytes.fetch_add(whole, std::memory_order_relaxed);
  }
  if (options.numa_node != -1) {
    HBMWIRE_TRY(bind_to_node(memory, whole, options.numa_node, subject));
  }
  if (is_huge(options)) {
    HBMWIRE_TRY(populate(memory, whole, options, subject));
  }
  return pages;
}

Result<Pages> Pages::open(const SharedFileName& name, std::uint64_t size_bytes,
                          std::string_view subject) {
  HBMWIRE_TRY_ASSIGN(const Fd file, SharedFile::open(name, size_bytes));
  void* const memory =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED)
    return tl::make_unexpected(system_error(Stage::open, "mmap", errno, subject));
  return Pages(memory, size_bytes, std::nullopt);
}

Result<void> advise(PageRange range, Advice advice, std::uint64_t page_bytes,
                    std::string_view subject) {
  const bool wanted = advice == Advice::prefetch;
  const std::uint64_t end = range.address + range.length_bytes;
  const std::uint64_t first = (range.address + (wanted ? 0 : page_bytes - 1)) / page_bytes;
  const std::uint64_t behind = (end + (wanted ? page_bytes - 1 : 0)) / page_bytes;
  if (behind <= first) return {};  // less than a page; other bytes in that page are needed
  // MADV_WILLNEED would only fetch pages that were swapped out; MADV_DONTNEED would lose contents.
  const int failed =
      ::madvise(std::bit_cast<void*>(first * page_bytes), (behind - first) * page_bytes,
                wanted ? MADV_POPULATE_READ : MADV_COLD);
  if (failed == 0) return {};
  Error error =
      system_error(Stage::allocate, wanted ? "madvise(MADV_POPULATE_READ)" : "madvise(MADV_COLD)",
                   errno, subject);
  if (error.number == EINVAL) {
    error.code = Errc::not_supported;
    error.hint = Hint::no_such_advice;
  }
  return tl::make_unexpected(error);
}

Pages::Pages(Pages&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)),
      size_bytes_(other.size_bytes_),
      promised_bytes_(std::exchange(other.promised_bytes_, 0)),
      file_(std::move(other.file_)) {}

Pages::~Pages() {
  promised_bytes.fetch_sub(promised_bytes_, std::memory_order_relaxed);
  if (address_ != nullptr && ::munmap(address_, size_bytes_) != 0)
    log_warning("munmap", "failed", errno);
}

}  // namespace hbmwire::memory::host
