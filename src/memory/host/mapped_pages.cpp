// SPDX-License-Identifier: MIT
#include "memory/host/mapped_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>

#include "base/guarded_copy.hpp"
#include "memory/host/mappings.hpp"

namespace hbmwire::memory::host {

namespace {

tl::unexpected<Error> refuse(Errc code, const char* why, std::string_view subject, Hint hint) {
  return tl::make_unexpected(make_error(code, Stage::register_memory, why, subject, hint));
}

tl::unexpected<Error> refuse_hole(std::string_view subject) {
  return refuse(Errc::invalid_argument, "not all of the range is mapped", subject,
                Hint::not_host_memory);
}

tl::unexpected<Error> refuse_unreadable(std::string_view subject) {
  return refuse(Errc::invalid_argument, "the memory can't be read (PROT_NONE)", subject,
                Hint::not_host_memory);
}

tl::unexpected<Error> refuse_read_only(std::string_view subject) {
  return refuse(Errc::permission_denied, "the memory is mapped read-only", subject,
                Hint::memory_not_writable);
}

tl::unexpected<Error> refuse_end(std::string_view subject) {
  return refuse(Errc::invalid_argument, "the mapping is longer than its file", subject,
                Hint::memory_beyond_file);
}

const std::byte* byte_at(std::uint64_t address) noexcept {
  return std::bit_cast<const std::byte*>(address);
}

/// Whether every byte of the range is mapped.
bool has_no_hole(AddressRange range, std::uint64_t page) noexcept {
  constexpr std::size_t kPagesAtOnce = 4096;
  std::array<unsigned char, kPagesAtOnce> resident;
  const AddressRange pages = whole_pages(range, page);
  for (std::uint64_t at = pages.begin; at < pages.end; at += kPagesAtOnce * page) {
    const std::uint64_t bytes = std::min(kPagesAtOnce * page, pages.end - at);
    if (::mincore(std::bit_cast<void*>(at), bytes, resident.data()) != 0 && errno == ENOMEM)
      return false;
  }
  return true;
}

Result<void> check_ends(AddressRange range, bool writes, std::string_view subject) {
  if (!has_no_hole(range, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))))
    return refuse_hole(subject);
  for (const std::uint64_t address : {range.begin, range.end - 1}) {
    if (!can_read(byte_at(address))) return refuse_unreadable(subject);
    // can_write() asks by a futex, which is an aligned word; this one lies in the same page.
    constexpr std::uint64_t kWord = 4;
    if (writes && !can_write(std::bit_cast<std::byte*>(address / kWord * kWord)))
      return refuse_read_only(subject);
  }
  return {};
}

}  // namespace

Result<void> check_pages(AddressRange range, bool writes, std::string_view subject) {
  std::uint64_t next = range.begin;  // all addresses before this one are fine
  Result<void> verdict;
  const bool told = for_each_mapping([&](const Mapping& mapping) {
    const AddressRange part = common(mapping.range, {next, range.end});
    // This mapping has no part of the unchecked rest: goes on unless it lies behind the range.
    if (part.begin == part.end) return mapping.range.begin < range.end;
    if (part.begin != next) {
      verdict = refuse_hole(subject);
    } else if (!mapping.readable) {
      verdict = refuse_unreadable(subject);
    } else if (writes && !mapping.writable) {
      verdict = refuse_read_only(subject);
    } else if (!can_read(byte_at(part.end - 1))) {
      verdict = refuse_end(subject);
    }
    next = part.end;
    return verdict && next != range.end;
  });
  if (!told) return check_ends(range, writes, subject);
  if (verdict && next != range.end) return refuse_hole(subject);
  return verdict;
}

}  // namespace hbmwire::memory::host
