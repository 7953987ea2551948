// SPDX-License-Identifier: MIT
//
// Exporting HBM as a dma-buf: what the driver checks, and what stands in for the dma-buf
// (emulation/README.md).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "emulation/common/export_descriptor.hpp"
#include "emulation/gaudi/card.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::uint64_t kExportGranule =
    4 * kKiB;  // the CPU's page: the driver wants multiples of it

bool on_page(std::uint64_t value) { return value % kExportGranule == 0; }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}

  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  [[nodiscard]] int get() const { return fd_; }

  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

// Where the range lies in the backing file, or -EINVAL.
int Card::find_exportable(StateContent& content, const ExportRange& range, Backing& backing) const {
  if (!on_page(range.address) || !on_page(range.offset) || !on_page(range.bytes) ||
      range.bytes == 0)
    return -EINVAL;
  if (!kind().has_dram_mmu) {
    const AddressRange& dram = kind().dram;
    if (range.offset != 0 || range.address < dram.begin || range.address >= dram.end ||
        range.bytes > dram.end - range.address) {
      return -EINVAL;
    }
    backing = {.offset = range.address, .bytes = range.bytes};
    return 0;
  }
  const MappingSlot* mapping = nullptr;
  for (const auto& slot : content.mappings) {
    if (slot.live != 0 && slot.handle != 0 && slot.address == range.address) mapping = &slot;
  }
  if (mapping == nullptr) return -EINVAL;  // no base of a mapping, or host memory
  for (const auto& allocation : content.allocations) {
    if (allocation.live == 0 || allocation.handle != mapping->handle) continue;
    if (range.offset > allocation.bytes || range.bytes > allocation.bytes - range.offset)
      return -EINVAL;
    backing = {.offset = allocation.offset + range.offset, .bytes = range.bytes};
    return 0;
  }
  return -EINVAL;
}

int Card::write_descriptor(int memfd, const Backing& backing) const {
  ExportDescriptor descriptor;
  descriptor.offset_bytes = backing.offset;
  descriptor.length_bytes = backing.bytes;
  const std::string path = hbm_path();
  if (path.size() >= sizeof(descriptor.backing_path)) return -ENAMETOOLONG;
  std::memcpy(descriptor.backing_path, path.c_str(), path.size());
  const std::string posted = posted_path();
  if (posted.size() >= sizeof(descriptor.posted_path)) return -ENAMETOOLONG;
  std::memcpy(descriptor.posted_path, posted.c_str(), posted.size());
  if (::ftruncate(memfd, static_cast<off_t>(backing.bytes)) != 0) return -errno;
  if (::pwrite(memfd, &descriptor, sizeof(descriptor), 0) !=
      static_cast<ssize_t>(sizeof(descriptor)))
    return -EIO;
  return ::fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 ? 0 : -errno;
}

// Makes the memfd, watches it, and gives out a reference that can be passed on and imported but not
// accessed.
int Card::publish(StateContent& content, const ExportRange& range, const Backing& backing) {
  ExportSlot* slot = free_slot(content.exports);
  if (slot == nullptr) {
    collect_exports(content);
    slot = free_slot(content.exports);
  }
  if (slot == nullptr) return -ENOMEM;
  if (const int error = watch_.start(); error != 0) return error;
  const Descriptor memfd(::memfd_create("hbmwire-gaudi-dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memfd.get() < 0) return -errno;
  if (const int error = write_descriptor(memfd.get(), backing); error != 0) return error;
  const std::string path = "/proc/self/fd/" + std::to_string(memfd.get());
  Descriptor reference(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (reference.get() < 0) return -errno;
  const int watch = watch_.add(memfd.get());
  if (watch < 0) return watch;
  *slot = {.live = 0,
           .watch = watch,
           .watch_id = watch_.id(),
           .watch_process = ::getpid(),
           .padding = 0,
           .address = range.address};
  take(*slot);
  return reference.release();
}

int Card::export_dmabuf(const ExportRange& range) {
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  Backing backing;
  if (const int error = find_exportable(*content, range, backing); error != 0) return error;
  return publish(*content, range, backing);
}

}  // namespace hbmwire::emulation::gaudi
