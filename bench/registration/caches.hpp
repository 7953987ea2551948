// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "hbmwire/context.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/registration.hpp"
#include "hbmwire/settings.hpp"

#include "bench/registration/raw_nic.hpp"

struct ucs_rcache;

namespace hbmwire::bench {

inline constexpr Access kEveryAccess =
    Access::local_write | Access::remote_write | Access::remote_read;

/// Pieces of memory with gaps between them, so that no cache joins several into one registration.
class Pieces {
 public:
  Pieces(const Context& context, std::size_t count, std::size_t piece_bytes);

  [[nodiscard]] std::size_t count() const { return count_; }

  [[nodiscard]] std::size_t piece_bytes() const { return piece_bytes_; }

  [[nodiscard]] std::uint64_t address(std::size_t index) const {
    return memory_.address() + index * 2 * piece_bytes_;
  }

 private:
  std::size_t count_;
  std::size_t piece_bytes_;
  Allocation memory_;
};

/// hbmwire's cache, with an emulated NIC below it.
class OurCache {
 public:
  using Watch = RegistrationOptions::Watch;

  OurCache(const Context& context, std::size_t max_regions, Watch watch = Watch::strict);

  /// Looks up the registration at `address`, and releases it.
  void use(std::uint64_t address, std::size_t bytes) const {
    const auto lease = cache_.get(address, bytes, kEveryAccess);
    if (!lease) fail_with(lease.error());
  }

  void use(const DmabufMemory& memory) const {
    const auto lease = cache_.get(memory, kEveryAccess);
    if (!lease) fail_with(lease.error());
  }

  [[nodiscard]] RegistrationStatistics statistics() const { return cache_.statistics(); }

 private:
  [[noreturn]] static void fail_with(const Error& error);

  RegistrationCache cache_;
};

/// UCX's own cache: ucs_rcache_get() and ucs_rcache_region_put() of libucs. Its hooks of munmap(2)
/// are off; a hit does not use them anyway.
class UcxCache {
 public:
  /// Registers with `nic`; without a NIC registration does nothing.
  UcxCache(std::size_t max_regions, RawNic* nic);
  UcxCache(const UcxCache&) = delete;
  UcxCache& operator=(const UcxCache&) = delete;
  UcxCache(UcxCache&&) = delete;
  UcxCache& operator=(UcxCache&&) = delete;
  ~UcxCache();

  void use(std::uint64_t address, std::size_t bytes) const;

 private:
  ucs_rcache* cache_ = nullptr;
};

}  // namespace hbmwire::bench
