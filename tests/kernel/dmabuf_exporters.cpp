// SPDX-License-Identifier: MIT
#include "dmabuf_exporters.hpp"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "hbmwire/fd.hpp"

#include <linux/dma-heap.h>

namespace hbmwire::test {

namespace {

// The needed parts of the kernel's include/uapi/drm/drm.h and drm_mode.h (6.12), in our own words.
// Debian has these headers only in libdrm-dev.
struct DrmVersion {
  int numbers[3];
  std::size_t name_length;
  char* name;
  std::size_t date_length;
  char* date;
  std::size_t description_length;
  char* description;
};

struct DrmDumbBuffer {
  std::uint32_t height;
  std::uint32_t width;
  std::uint32_t bits_per_pixel;
  std::uint32_t flags;
  std::uint32_t handle;
  std::uint32_t pitch_bytes;
  std::uint64_t size_bytes;
};

struct DrmExport {
  std::uint32_t handle;
  std::uint32_t flags;  // O_CLOEXEC, O_RDWR
  std::int32_t fd;
};

constexpr unsigned long kDrmVersion = _IOWR('d', 0x00, DrmVersion);
constexpr unsigned long kDrmExport = _IOWR('d', 0x2d, DrmExport);
constexpr unsigned long kDrmCreateDumb = _IOWR('d', 0xb2, DrmDumbBuffer);

}  // namespace

Fd make_udmabuf(std::uint64_t size_bytes) {
  const Fd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  const Fd file(::memfd_create("exporter", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!device || !file || ::ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    return {};
  udmabuf_create create{};
  create.memfd = static_cast<std::uint32_t>(file.get());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = size_bytes;
  return Fd(::ioctl(device.get(), UDMABUF_CREATE, &create));
}

Fd make_heap_buffer(std::uint64_t size_bytes) {
  const Fd heap(::open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC));
  if (!heap) return {};
  dma_heap_allocation_data data{};
  data.len = size_bytes;
  data.fd_flags = O_RDWR | O_CLOEXEC;
  if (::ioctl(heap.get(), DMA_HEAP_IOCTL_ALLOC, &data) != 0) return {};
  return Fd(static_cast<int>(data.fd));
}

std::string vgem_node() {
  constexpr int kMostCards = 16;
  for (int number = 0; number < kMostCards; ++number) {
    std::string path = "/dev/dri/card" + std::to_string(number);
    const Fd card(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    std::array<char, 32> name{};
    DrmVersion version{};
    version.name = name.data();
    version.name_length = name.size() - 1;
    if (card && ::ioctl(card.get(), kDrmVersion, &version) == 0 &&
        std::strcmp(name.data(), "vgem") == 0)
      return path;
  }
  errno = ENODEV;
  return {};
}

Fd make_vgem_buffer(std::uint64_t size_bytes) {
  const Fd card(::open(vgem_node().c_str(), O_RDWR | O_CLOEXEC));
  if (!card) return {};
  constexpr std::uint32_t kBitsPerPixel = 8;
  constexpr std::uint64_t kRow = 4096;
  DrmDumbBuffer buffer{};
  buffer.width = kRow;
  buffer.height = static_cast<std::uint32_t>(size_bytes / kRow);
  buffer.bits_per_pixel = kBitsPerPixel;
  if (::ioctl(card.get(), kDrmCreateDumb, &buffer) != 0) return {};
  DrmExport exported{};
  exported.handle = buffer.handle;
  exported.flags = O_CLOEXEC | O_RDWR;
  // The handle is released with the card's descriptor. The dma-buf keeps its memory.
  if (::ioctl(card.get(), kDrmExport, &exported) != 0) return {};
  return Fd(exported.fd);
}

}  // namespace hbmwire::test
