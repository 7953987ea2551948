// SPDX-License-Identifier: MIT
#include "transport/copy/engine_copy.hpp"

#include <bit>
#include <span>

namespace hbmwire::transport {

namespace {

bool is_host(const MemoryDomain& domain) noexcept {
  return domain.device().type == MemoryType::host;
}

}  // namespace

bool has_engine(const MemoryDomain& domain) noexcept {
  return !is_host(domain) && !domain.copy_engine().empty() && domain.copy_engine() != "CPU";
}

bool engine_copies(const MemoryDomain& from, const MemoryDomain& to) noexcept {
  if (is_host(from)) return has_engine(to);
  if (is_host(to)) return has_engine(from);
  return to.copies_from(from);
}

Result<PendingCopy> start_engine_copy(const CopyPlace& from, const CopyPlace& to,
                                      std::uint64_t length_bytes) {
  if (!engine_copies(from.domain, to.domain)) {
    return tl::make_unexpected(make_error(Errc::not_supported, Stage::copy,
                                          "no engine copies between the two memories",
                                          from.domain.device().name));
  }
  if (is_host(from.domain)) {
    const auto* const bytes = std::bit_cast<const std::byte*>(from.address);
    return to.domain.start_copy_in(to.address, {bytes, length_bytes});
  }
  if (is_host(to.domain)) {
    auto* const bytes = std::bit_cast<std::byte*>(to.address);
    return from.domain.start_copy_out(from.address, {bytes, length_bytes});
  }
  return to.domain.start_copy_from(from.domain, from.address, to.address, length_bytes);
}

}  // namespace hbmwire::transport
