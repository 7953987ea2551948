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

/// Registered memory whose contents can be written and read from the host, wherever they live: by
/// the CPU for host memory, by the device's own copy engine where it has one, else by the NIC in
/// loopback. Move-only; it and its copies: one thread at a time.
class HBMWIRE_API Buffer {
 public:
  /// Allocates `size_bytes` in `domain` and registers them with `nic`.
  static Result<Buffer> create(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                               std::uint64_t size_bytes, Access access);

  /// The same of memory that is there: the application's own (Context::borrow(), adopt(),
  /// import_dmabuf()).
  static Result<Buffer> create(const Allocation& allocation, const Nic& nic, Access access);

  /// The same of memory that is registered already (Context::register_memory()), by its first NIC.
  /// Errors: as above; Errc::invalid_argument, device memory without Access::local_write, which
  /// the NIC needs where the device has no copy engine.
  static Result<Buffer> create(const Region& region);

  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  [[nodiscard]] const Region& region() const noexcept;
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// How write() and read() move bytes: MemoryDomain::copy_engine(), or "NIC loopback".
  [[nodiscard]] std::string_view copy_path() const noexcept;

  /// Host to buffer at `offset_bytes`. Complete, and visible to the NIC, on return; what a NIC has
  /// completed into the buffer before is not the last to arrive (see read()). Errors:
  /// Stage::copy; Errc::invalid_argument when the range leaves the buffer. `wait` bounds it;
  /// Wait::cancel_fd is honoured.
  Result<void> write(std::uint64_t offset_bytes, std::span<const std::byte> from, const Wait& wait);

  /// Buffer to host. What a NIC has completed into the buffer is flushed first: the completion of
  /// an inbound RDMA write does not order it against the device's own engines (PCIe orders no
  /// writes to different targets).
  Result<void> read(std::uint64_t offset_bytes, std::span<std::byte> to, const Wait& wait);

  /// The same, going on by themselves: `from` and `to` must stay until the copy is complete or
  /// destroyed. Copies of one buffer are done in the order in which they were started; whoever
  /// polls one drives those before it. A copy may outlive the Buffer, whose memory it keeps
  /// registered. Destroyed before it is complete it leaves the contents of the target undefined.
  /// Errors: as above, of starting or of PendingCopy::poll().
  Result<PendingCopy> start_write(std::uint64_t offset_bytes, std::span<const std::byte> from);
  Result<PendingCopy> start_read(std::uint64_t offset_bytes, std::span<std::byte> to);

 private:
  explicit Buffer(std::shared_ptr<detail::BufferState> state) noexcept;
  std::shared_ptr<detail::BufferState> state_;  // a copy that goes on holds it, too
};

}  // namespace hbmwire
