// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "hbmwire/context.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/nic.hpp"
#include "hbmwire/settings.hpp"

namespace hbmwire {

namespace detail {
struct Internals;
class RegionCache;
struct RegistrationReference;
}  // namespace detail

/// The use of a cached registration: while it lives, memory stays registered with every NIC of the
/// cache. Move-only. Any thread may destroy it; it costs least in the thread that got it.
class RegistrationLease {
 public:
  RegistrationLease() noexcept = default;

  RegistrationLease(RegistrationLease&& other) noexcept
      : reference_(std::exchange(other.reference_, nullptr)),
        address_(other.address_),
        length_bytes_(other.length_bytes_) {}

  RegistrationLease& operator=(RegistrationLease&& other) noexcept {
    if (this == &other) return *this;
    reset();
    reference_ = std::exchange(other.reference_, nullptr);
    address_ = other.address_;
    length_bytes_ = other.length_bytes_;
    return *this;
  }

  RegistrationLease(const RegistrationLease&) = delete;
  RegistrationLease& operator=(const RegistrationLease&) = delete;

  ~RegistrationLease() { reset(); }

  /// Ends the use; the lease is empty then.
  void reset() noexcept {
    if (reference_ != nullptr) let_go(*std::exchange(reference_, nullptr));
  }

  /// Whether it holds a registration.
  explicit operator bool() const noexcept { return reference_ != nullptr; }

  /// The registered region, which may be more than was asked for. Valid as long as the lease. A
  /// copy of the region keeps the registration alive longer. The caller must not let it outlive the
  /// memory.
  [[nodiscard]] HBMWIRE_API const Region& region() const noexcept;

  /// The first address that was asked for.
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

  /// The length that was asked for.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return length_bytes_; }

  /// The part of region() that was asked for.
  [[nodiscard]] Slice slice() const noexcept {
    return {&region(), address_ - region().address(), length_bytes_};
  }

 private:
  friend struct detail::Internals;

  RegistrationLease(detail::RegistrationReference* reference, std::uint64_t address,
                    std::uint64_t length_bytes) noexcept
      : reference_(reference), address_(address), length_bytes_(length_bytes) {}

  HBMWIRE_API static void let_go(detail::RegistrationReference& reference) noexcept;

  // Three members, and not one pointer to them: a lease is made for every use of memory, and may
  // not allocate.
  detail::RegistrationReference* reference_ = nullptr;
  std::uint64_t address_ = 0;
  std::uint64_t length_bytes_ = 0;
};

/// Counts of a cache's work, and its present size.
struct RegistrationStatistics {
  std::uint64_t hits = 0;            ///< look-ups that found a registration
  std::uint64_t misses = 0;          ///< look-ups that registered anew
  std::uint64_t evictions = 0;       ///< registrations that were dropped to stay within a budget
  std::uint64_t invalidations = 0;   ///< registrations that were dropped because their memory had
                                     ///< gone
  std::uint64_t not_kept = 0;        ///< registered for one use: cannot be watched, or over budget
  std::uint64_t regions = 0;         ///< registered now, whether cached or in use
  std::uint64_t bytes = 0;           ///< of these regions
  std::uint64_t memory_regions = 0;  ///< MRs: one for each region and NIC
  std::uint64_t dmabufs = 0;         ///< descriptors that they hold
  std::uint64_t in_use = 0;          ///< of the regions: those with a lease
};

/// Registrations that are kept for the next use of the same memory. Copies share it. Thread-safe.
///
/// A look-up never finds a registration of memory that has gone. Memory that the library allocated
/// or imported is forgotten with its last Allocation. If a vendor tells one allocation from the
/// next (CUDA's buffer id), each look-up compares that. The application's host memory is watched by
/// userfaultfd(2): a look-up does not find pages whose munmap(2), mremap(2) or madvise(2) has
/// returned. Other memory is registered only for the time of its lease. So is memory that was
/// adopted from hl-thunk, since its owner could not unmap it otherwise. See docs/registration.md.
///
/// After fork(2) the child's look-ups fail (Errc::not_supported), since the NICs are its parent's.
class HBMWIRE_API RegistrationCache {
 public:
  /// A cache of registrations with all of `nics` (at least one), as Settings::registration or
  /// `options` say. Errors: Errc::invalid_argument.
  static Result<RegistrationCache> create(const Context& context, const std::vector<Nic>& nics);
  static Result<RegistrationCache> create(const Context& context, const std::vector<Nic>& nics,
                                          const RegistrationOptions& options);

  /// The registration of [address, address + length_bytes) for exactly this access. A hit costs
  /// some nanoseconds: it takes no lock, allocates nothing, and makes no system call, except for
  /// the application's host memory (RegistrationOptions::Watch::strict). A miss registers the whole
  /// allocation if the options say so, or else the range of the call. Errors: as Context::find()
  /// and Nic::register_memory().
  [[nodiscard]] Result<RegistrationLease> get(std::uint64_t address, std::uint64_t length_bytes,
                                              Access access) const;

  /// The same for a dma-buf that the application brings. The cache knows the dma-buf again under
  /// any descriptor number. The cached registration keeps the buffer alive after its owner has
  /// closed it, until it is evicted or dropped.
  [[nodiscard]] Result<RegistrationLease> get(const DmabufMemory& memory, Access access) const;

  /// Forgets registrations that overlap [address, address + length_bytes). For programs that change
  /// the pages of a range themselves (fallocate(2) on a shared file). A registration in use is
  /// deregistered after its last lease.
  void drop(std::uint64_t address, std::uint64_t length_bytes) const;

  /// Forgets every registration that is not in use.
  void drop_unused() const;

  /// Counts since the cache was made, and its present size.
  [[nodiscard]] RegistrationStatistics statistics() const;

 private:
  explicit RegistrationCache(std::shared_ptr<detail::RegionCache> cache) noexcept;

  std::shared_ptr<detail::RegionCache> cache_;
};

}  // namespace hbmwire
