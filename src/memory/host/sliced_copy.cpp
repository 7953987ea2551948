// SPDX-License-Identifier: MIT
#include "memory/host/sliced_copy.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/guarded_copy.hpp"

namespace hbmwire::memory::host {

namespace {

constexpr std::size_t kSlice = 512U << 10U;

/// Maps all pages at once, because a fault for each page takes longer than copying it. If no page
/// is left it returns an error; a fault would end the process instead (SIGBUS).
Result<void> populate(const std::byte* memory, std::size_t bytes, int advice) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto address = std::bit_cast<std::uint64_t>(memory);
  const std::uint64_t first = address / page * page;
  const std::uint64_t behind = (address + bytes + page - 1) / page * page;
  if (::madvise(std::bit_cast<void*>(first), behind - first, advice) == 0) return {};
  if (errno == EINVAL) return {};  // a kernel before 5.14
  return tl::make_unexpected(
      system_error(Stage::copy, "madvise(MADV_POPULATE)", errno, "another process' memory"));
}

}  // namespace

SlicedCopy::~SlicedCopy() {
  for (auto done = Result<bool>(from_.empty()); done && !*done;) done = poll();
}

Result<bool> SlicedCopy::poll() {
  const std::size_t bytes = std::min(from_.size(), kSlice);
  if (foreign_.from) HBMWIRE_TRY(populate(from_.data(), bytes, MADV_POPULATE_READ));
  if (foreign_.to) HBMWIRE_TRY(populate(to_.data(), bytes, MADV_POPULATE_WRITE));
  if (!guarded_) {
    std::memcpy(to_.data(), from_.data(), bytes);
  } else if (!copy_to_application(to_.data(), from_.first(bytes))) {
    return tl::make_unexpected(memory_gone(Stage::copy, "host"));
  }
  from_ = from_.subspan(bytes);
  to_ = to_.subspan(bytes);
  return from_.empty();
}

}  // namespace hbmwire::memory::host
