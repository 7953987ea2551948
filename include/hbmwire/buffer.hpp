// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory_domain.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire {

namespace detail {
struct BufferState;
}

/// Registered memory that the host can write and read, wherever it lies. The CPU moves the bytes of
/// host memory. For device memory the device's own copy engine moves them, or else the NIC in
/// loopback. Move-only. A buffer and its copies are used by one thread at a time.
class HBMWIRE_API Buffer {
 public:
  /// Allocates `size_bytes` in `domain` and registers them with `nic`.
  static Result<Buffer> create(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                               std::uint64_t size_bytes, Access access);

  /// The same for memory that exists already: the application's own (Context::borrow(), adopt(),
  /// import_dmabuf()).
  static Result<Buffer> create(const Allocation& allocation, const Nic& nic, Access access);

  /// The same for memory that is registered already (Context::register_memory()), by its first NIC.
  /// Errors: as above; Errc::invalid_argument: device memory without Access::local_write, which the
  /// NIC needs if the device has no copy engine.
  static Result<Buffer> create(const Region& region);

  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  /// The memory and its registration. Valid as long as the buffer.
  [[nodiscard]] const Region& region() const noexcept;

  /// The length of the buffer.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// How write() and read() move bytes: MemoryDomain::copy_engine(), or "NIC loopback".
  [[nodiscard]] std::string_view copy_path() const noexcept;

  /// Copies from the host to `offset_bytes` of the buffer. Complete, and visible to the NIC, on
  /// return. Bytes that a NIC has completed into the buffer before are flushed first (see read()):
  /// they cannot overwrite those of this call. `wait` bounds the copy; Wait::cancel_fd is honoured.
  /// Errors: Stage::copy; Errc::invalid_argument if the range leaves the buffer.
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from, const Wait& wait);

  /// Copies from the buffer to the host. Bytes that a NIC has completed into the buffer are flushed
  /// first: the completion of an inbound RDMA write does not order the write against the device's
  /// own engines (PCIe orders no writes to different targets). Errors: as write().
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait);

  /// write() and read() without waiting. `from` and `to` must stay until the copy is complete or
  /// destroyed. Copies of one buffer are done in the order in which they were started; polling one
  /// drives those before it. A copy may outlive the Buffer, whose memory it keeps registered. If a
  /// copy is destroyed before it is complete, the contents of its target are undefined. Errors: as
  /// write(), from the start or from PendingCopy::poll().
  Result<PendingCopy> start_write(std::uint64_t offset_bytes, std::span<const std::byte> from);
  Result<PendingCopy> start_read(std::uint64_t offset_bytes, std::span<std::byte> to);

 private:
  explicit Buffer(std::shared_ptr<detail::BufferState> state) noexcept;
  std::shared_ptr<detail::BufferState> state_;  // an unfinished copy holds it, too
};

}  // namespace hbmwire
