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

/// Mapped pages, unmapped with this object. Move-only.
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

/// Addresses that nothing else in this process has, nor gets while this exists, and that the CPU
/// can't use: a range of the address space that is mapped to nothing.
class Reservation {
 public:
  /// `length_bytes` addresses, of which the first lies as far into a page as `offset_bytes` does:
  /// the kernel wants that of a dma-buf's offset and the address that it is registered under.
  /// Errors: Stage::open: no room in the address space.
  static Result<Reservation> create(std::uint64_t offset_bytes, std::uint64_t length_bytes);

  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

 private:
  Mapping mapping_;
  std::uint64_t address_ = 0;
};

/// The CPU's way to a dma-buf's bytes, if there is one.
class CpuAccess {
 public:
  CpuAccess() noexcept = default;

  /// Maps a part of it, where its exporter allows that; else there is no way.
  CpuAccess(const Descriptor& descriptor, std::uint64_t offset_bytes, std::uint64_t length_bytes);

  /// By a mapping of the application's.
  CpuAccess(const Descriptor& descriptor, void* mapping);

  explicit operator bool() const noexcept { return first_ != nullptr; }

  /// Errors: Stage::copy. `offset_bytes` counts from the part's first byte.
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to) const;
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from) const;

 private:
  [[nodiscard]] Result<void> synchronise(std::uint64_t flags) const;

  std::shared_ptr<const Fd> fd_;
  Mapping mapping_;  // ours
  std::byte* first_ = nullptr;
  bool writable_ = false;
};

}  // namespace hbmwire::memory::dmabuf
