// SPDX-License-Identifier: MIT
#include "memory/dmabuf/cpu_access.hpp"

#include <sys/ioctl.h>
#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "base/guarded_copy.hpp"
#include "base/log.hpp"
#include <linux/dma-buf.h>

namespace hbmwire::memory::dmabuf {

namespace {

// A large reservation begins at the same place in a huge page as its offset: a NIC can then use
// larger pages.
constexpr std::uint64_t kHugePage = std::uint64_t{1} << 21U;

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_bytes_(other.size_bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (base_ != nullptr && ::munmap(base_, size_bytes_) != 0) log_warning("munmap", "failed", errno);
}

Result<Reservation> Reservation::create(std::uint64_t offset_bytes, std::uint64_t length_bytes) {
  const std::uint64_t page = length_bytes >= kHugePage ? kHugePage : kPageBytes;
  const std::uint64_t size = length_bytes + 2 * page;  // one to align, one for the offset in a page
  void* const base =
      size < length_bytes
          ? MAP_FAILED
          : ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return tl::make_unexpected(system_error(Stage::open, "mmap(PROT_NONE)", ENOMEM, "dmabuf",
                                            Hint::host_memory_exhausted));
  }
  Reservation reservation;
  reservation.mapping_ = Mapping(base, size);
  const auto first = std::bit_cast<std::uint64_t>(base);
  reservation.address_ = (first + page - 1) / page * page + offset_bytes % page;
  return reservation;
}

CpuAccess::CpuAccess(const Descriptor& descriptor, std::uint64_t offset_bytes,
                     std::uint64_t length_bytes)
    : fd_(descriptor.fd), writable_(descriptor.writable) {
  // Maps the buffer from its beginning, whatever part is wanted. The fault handler of DRM's shmem
  // helpers (used by vgem and small GPUs' drivers; drm_gem_shmem_fault(), Linux 6.12) looks only at
  // the place in the mapping. With an offset, mmap(2) would show the buffer's first bytes instead.
  const std::uint64_t size = offset_bytes + length_bytes;
  void* const base = ::mmap(nullptr, size, writable_ ? PROT_READ | PROT_WRITE : PROT_READ,
                            MAP_SHARED, fd_->get(), 0);
  if (base == MAP_FAILED) return;
  mapping_ = Mapping(base, size);
  first_ = mapping_.base() + offset_bytes;
}

CpuAccess::CpuAccess(const Descriptor& descriptor, void* mapping)
    : fd_(descriptor.fd),
      first_(static_cast<std::byte*>(mapping)),
      writable_(descriptor.writable) {}

Result<void> CpuAccess::synchronise(std::uint64_t flags) const {
  dma_buf_sync sync{.flags = flags};
  while (::ioctl(fd_->get(), DMA_BUF_IOCTL_SYNC, &sync) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    // A descriptor that does not know the call has nothing to synchronise. If it is no dma-buf at
    // all, the NIC reports that.
    if (errno == ENOTTY || errno == EBADF) return {};
    return tl::make_unexpected(system_error(Stage::copy, "DMA_BUF_IOCTL_SYNC", errno, "dmabuf"));
  }
  return {};
}

Result<void> CpuAccess::read(std::uint64_t offset_bytes, std::span<std::byte> to) const {
  HBMWIRE_TRY(synchronise(DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ));
  const bool copied = copy_from_application(to, first_ + offset_bytes);
  HBMWIRE_TRY(synchronise(DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ));
  return copied ? Result<void>() : tl::make_unexpected(memory_gone(Stage::copy, "dmabuf"));
}

Result<void> CpuAccess::write(std::uint64_t offset_bytes, std::span<const std::byte> from) const {
  if (!writable_) {
    return tl::make_unexpected(make_error(Errc::permission_denied, Stage::copy,
                                          "the dma-buf is open read-only", "dmabuf",
                                          Hint::dmabuf_read_only));
  }
  HBMWIRE_TRY(synchronise(DMA_BUF_SYNC_START | DMA_BUF_SYNC_WRITE));
  const bool copied = copy_to_application(first_ + offset_bytes, from);
  HBMWIRE_TRY(synchronise(DMA_BUF_SYNC_END | DMA_BUF_SYNC_WRITE));
  return copied ? Result<void>() : tl::make_unexpected(memory_gone(Stage::copy, "dmabuf"));
}

}  // namespace hbmwire::memory::dmabuf
