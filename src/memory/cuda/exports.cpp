// SPDX-License-Identifier: MIT
#include "memory/cuda/exports.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace hbmwire::memory::cuda {

namespace {

std::uint64_t host_page() {
  static const auto kBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

}  // namespace

Result<void> Exports::set_context_flag() const {
  const Driver& driver = *machine_.driver;
  if (driver.context_get_flags == nullptr || driver.context_set_flags == nullptr) return {};
  unsigned flags = 0;
  HBMWIRE_TRY(check(Stage::export_dmabuf, "cuCtxGetFlags", driver.context_get_flags(&flags),
                    gpu_.info.name));
  if ((flags & kContextSyncMemops) != 0) return {};
  return check(Stage::export_dmabuf, "cuCtxSetFlags",
               driver.context_set_flags(flags | kContextSyncMemops), gpu_.info.name);
}

Result<void> Exports::sync_memops(const Known& known) const {
  if (!machine_.settings.cuda.sync_memops) return {};
  // Virtual memory does not have the attribute SYNC_MEMOPS, but the context has a flag that applies
  // to all its memory.
  if (known.is_virtual) return set_context_flag();
  const unsigned on = 1;
  const int result = machine_.driver->pointer_set_attribute(&on, kPointerSyncMemops, known.base);
  if (result == kNotSupported) return set_context_flag();
  return check(Stage::export_dmabuf, "cuPointerSetAttribute(SYNC_MEMOPS)", result, gpu_.info.name);
}

Result<int> Exports::call_driver(std::uint64_t begin, std::uint64_t bytes) const {
  const auto call = [&](unsigned long long flags) -> Result<int> {
    int fd = -1;
    HBMWIRE_TRY(check(Stage::export_dmabuf, "cuMemGetHandleForAddressRange",
                      machine_.driver->mem_get_handle(&fd, begin, bytes, kDmabufFd, flags),
                      gpu_.info.name,
                      flags == 0 ? Hint::cuda_dmabuf_not_supported : Hint::cuda_pcie_mapping));
    return fd;
  };
  const Use pcie = machine_.settings.cuda.pcie_mapping;
  if (pcie == Use::no) return call(0);
  auto mapped = call(kPcieMapping);
  const bool unknown =
      !mapped && (mapped.error().number == kInvalidValue || mapped.error().number == kNotSupported);
  return unknown && pcie == Use::attempt ? call(0) : mapped;
}

Result<DmabufRange> Exports::get(const Known& known, std::uint64_t address,
                                 std::uint64_t length_bytes) {
  const std::uint64_t page = host_page();
  const std::uint64_t begin = known.base / page * page;
  const std::uint64_t end = (known.base + known.bytes + page - 1) / page * page;
  const std::scoped_lock lock(mutex_);
  const Key key{known.generation, known.base, known.bytes};
  std::shared_ptr<const Fd> fd;
  if (const auto found = dmabufs_.find(key); found != dmabufs_.end()) fd = found->second.lock();
  if (!fd) {
    HBMWIRE_TRY(sync_memops(known));
    HBMWIRE_TRY_ASSIGN(const int made, call_driver(begin, end - begin));
    fd = std::make_shared<const Fd>(Fd{made});
    if (::fcntl(made, F_SETFD, FD_CLOEXEC) != 0) {
      return tl::make_unexpected(
          system_error(Stage::export_dmabuf, "fcntl", errno, gpu_.info.name));
    }
    std::erase_if(dmabufs_, [](const auto& entry) { return entry.second.expired(); });
    dmabufs_[key] = fd;
  }
  return DmabufRange{.fd = std::move(fd),
                     .base_address = begin,
                     .offset_bytes = address - begin,
                     .length_bytes = length_bytes,
                     .generation = known.generation};
}

}  // namespace hbmwire::memory::cuda
