// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/export.hpp"
#include "hbmwire/memory.hpp"
#include "hbmwire/nic.hpp"

namespace hbmwire {

namespace detail {
struct BufferState;
}

/// Registered memory whose contents can be written and read from the host, wherever they live: by
/// the CPU for host memory, by the device's own copy engine where it has one, else by the NIC in
/// loopback. Move-only; one thread at a time.
class HBMWIRE_API Buffer {
 public:
  /// Allocates `size_bytes` in `domain` and registers them with `nic`.
  static Result<Buffer> create(const std::shared_ptr<MemoryDomain>& domain, const Nic& nic,
                               std::uint64_t size_bytes, Access access);

  /// The same of memory that is there: the application's own (Context::borrow(), adopt(),
  /// import_dmabuf()).
  static Result<Buffer> create(const Allocation& allocation, const Nic& nic, Access access);

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

 private:
  explicit Buffer(std::unique_ptr<detail::BufferState> state) noexcept;
  std::unique_ptr<detail::BufferState> state_;
};

}  // namespace hbmwire
