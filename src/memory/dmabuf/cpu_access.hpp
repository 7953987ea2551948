// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"

#include "memory/dmabuf/descriptor.hpp"

namespace hbmwire::memory::dmabuf {

inline constexpr std::uint64_t kPageBytes = 4096;

/// Mapped pages, which its destructor unmaps. Move-only.
class Mapping {
 public:
  Mapping() noexcept = default;

  Mapping(void* base, std::uint64_t size_bytes) noexcept : base_(base), size_bytes_(size_bytes) {}

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* base() const noexcept { return static_cast<std::byte*>(base_); }

 private:
  void* base_ = nullptr;
  std::uint64_t size_bytes_ = 0;
};

/// A range of addresses that is mapped to nothing, so that nothing else in this process gets these
/// addresses during its life. The CPU cannot use them.
class Reservation {
 public:
  /// Reserves `length_bytes` addresses. The first one is as far into a page as `offset_bytes` is,
  /// because the kernel requires that of a dma-buf's offset and its registered address. Errors:
  /// Stage::open (no room in the address space).
  static Result<Reservation> create(std::uint64_t offset_bytes, std::uint64_t length_bytes);

  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

 private:
  Mapping mapping_;
  std::uint64_t address_ = 0;
};

/// Lets the CPU access a dma-buf's bytes, if that is possible.
class CpuAccess {
 public:
  CpuAccess() noexcept = default;

  /// Maps a part of the dma-buf. If its exporter does not allow that, the CPU has no access.
  CpuAccess(const Descriptor& descriptor, std::uint64_t offset_bytes, std::uint64_t length_bytes);

  /// Uses a mapping of the application.
  CpuAccess(const Descriptor& descriptor, void* mapping);

  explicit operator bool() const noexcept { return first_ != nullptr; }

  /// `offset_bytes` counts from the part's first byte. Errors: Stage::copy.
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to) const;
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from) const;

 private:
  [[nodiscard]] Result<void> synchronise(std::uint64_t flags) const;

  std::shared_ptr<const Fd> fd_;
  Mapping mapping_;  // our own mapping, if any
  std::byte* first_ = nullptr;
  bool writable_ = false;
};

}  // namespace hbmwire::memory::dmabuf
