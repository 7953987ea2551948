// SPDX-License-Identifier: MIT
//
// Exports HBM as a dma-buf: the driver's checks, and the file that stands for the dma-buf
// (emulation/docs/architecture.md).
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <span>

#include "emulation/common/publish_export.hpp"
#include "emulation/gaudi/card.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

// The CPU's page: the driver requires multiples of it.
constexpr std::uint64_t kExportGranule = 4 * kKiB;

bool on_page(std::uint64_t value) { return value % kExportGranule == 0; }

}  // namespace

// Finds the range in the backing file. Returns 0 or -EINVAL.
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
  if (mapping == nullptr) return -EINVAL;  // not the base of a mapping, or host memory
  for (const auto& allocation : content.allocations) {
    if (allocation.live == 0 || allocation.handle != mapping->handle) continue;
    if (range.offset > allocation.bytes || range.bytes > allocation.bytes - range.offset)
      return -EINVAL;
    backing = {.offset = allocation.offset + range.offset, .bytes = range.bytes};
    return 0;
  }
  return -EINVAL;
}

// A forked child inherits the inotify instance and shares its queue. The process that reads an
// event records it in the shared state.
std::uint64_t Card::collect_exports(StateContent& content) const {
  for (const int watch : watch_.gone()) {
    for (auto& slot : content.exports) {
      if (slot.live != 0 && slot.watch_id == watch_.id() && slot.watch == watch) give_back(slot);
    }
  }
  std::uint64_t live = 0;
  for (auto& slot : content.exports) {
    if (slot.live == 0) continue;
    // The export may be from a process that got the card's fd through a socket. If that process is
    // gone, so are its inotify instance and the export's watch.
    const bool foreign = slot.watch_id != watch_.id();
    if (foreign && ::kill(slot.watch_process, 0) != 0 && errno == ESRCH) give_back(slot);
    live += slot.live != 0 ? 1 : 0;
  }
  return live;
}

// Makes the memfd and watches it. Returns a reference that can be passed on and imported, but not
// accessed.
int Card::publish(StateContent& content, const ExportRange& range, const Backing& backing) {
  ExportSlot* slot = free_slot(content.exports);
  if (slot == nullptr) {
    collect_exports(content);
    slot = free_slot(content.exports);
  }
  if (slot == nullptr) return -ENOMEM;
  if (const int error = watch_.start(); error != 0) return error;
  const ExportSegment segment{backing.offset, backing.bytes};
  PublishedExport made;
  const int error = publish_export(
      {"hbmwire-gaudi-dmabuf", hbm_path(), posted_path(), std::span(&segment, 1)}, made);
  if (error != 0) return error;
  const int watch = watch_.add(made.memfd.get());
  if (watch < 0) return watch;
  *slot = {.live = 0,
           .watch = watch,
           .watch_id = watch_.id(),
           .watch_process = ::getpid(),
           .padding = 0,
           .address = range.address};
  take(*slot);
  return made.reference.release();
}

int Card::export_dmabuf(const ExportRange& range) {
  if (state() == nullptr) return -errno;
  const StateLock content(*state_);
  Backing backing;
  if (const int error = find_exportable(*content, range, backing); error != 0) return error;
  return publish(*content, range, backing);
}

}  // namespace hbmwire::emulation::gaudi
