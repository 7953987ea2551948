// SPDX-License-Identifier: MIT
//
// hl-thunk: device memory. Calls that return an address or a handle return 0 with errno set on
// failure.
#include <fcntl.h>

#include <bit>
#include <cstdlib>

#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/hl_thunk_calls.hpp"

using namespace hbmwire::emulation::gaudi;

namespace {

std::uint64_t zero_with_errno(int negative_errno) {
  errno = -negative_errno;
  return 0;
}

int export_range(int fd, const ExportRange& range) {
  Card* card = nullptr;
  if (const int error = card_for_memory(fd, card); error != 0) return error;
  return card->export_dmabuf(range);
}

std::uint64_t map_host_range(int fd, const HostRange& range, std::uint64_t hint,
                             std::uint32_t flags) {
  Card* card = nullptr;
  int error = card_for_memory(fd, card);
  std::uint64_t address = 0;
  if (error == 0) error = card->map_host(range, hint, flags, address);
  return error == 0 ? address : zero_with_errno(error);
}

}  // namespace

// The flags have no effect: allocations are always contiguous, and a card has only one context.
uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool /*contiguous*/,
                                     bool /*shared*/) {
  Card* card = nullptr;
  int error = injected("hlthunk_device_memory_alloc");
  if (error == 0) error = card_for_memory(fd, card);
  std::uint64_t handle = 0;
  if (error == 0) error = card->allocate({.bytes = size, .page_bytes = page_size}, handle);
  return error == 0 ? handle : zero_with_errno(error);
}

int hlthunk_device_memory_free(int fd, uint64_t handle) {
  Card* card = nullptr;
  int error = injected("hlthunk_device_memory_free");
  if (error == 0) error = card_for_memory(fd, card);
  return error == 0 ? card->free(handle) : error;
}

uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint_addr) {
  Card* card = nullptr;
  int error = injected("hlthunk_device_memory_map");
  if (error == 0) error = card_for_memory(fd, card);
  std::uint64_t address = 0;
  if (error == 0) error = card->map_device(handle, hint_addr, address);
  return error == 0 ? address : zero_with_errno(error);
}

uint64_t hlthunk_host_memory_map(int fd, void* host_virt_addr, uint64_t hint_addr,
                                 uint64_t host_size) {
  if (const int error = injected("hlthunk_host_memory_map"); error != 0)
    return zero_with_errno(error);
  return map_host_range(fd, {std::bit_cast<std::uint64_t>(host_virt_addr), host_size}, hint_addr,
                        0);
}

uint64_t hlthunk_host_memory_map_flags(int fd, void* host_virt_addr, uint64_t hint_addr,
                                       uint64_t host_size, uint32_t flags) {
  if (const int error = injected("hlthunk_host_memory_map_flags"); error != 0)
    return zero_with_errno(error);
  return map_host_range(fd, {std::bit_cast<std::uint64_t>(host_virt_addr), host_size}, hint_addr,
                        flags);
}

int hlthunk_memory_unmap(int fd, uint64_t device_virt_addr) {
  Card* card = nullptr;
  int error = injected("hlthunk_memory_unmap");
  if (error == 0) error = card_for_memory(fd, card);
  return error == 0 ? card->unmap(device_virt_addr) : error;
}

// The older call: it ignores flags and has an offset of 0.
int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size,
                                           uint32_t /*flags*/) {
  if (const int error = injected("hlthunk_device_memory_export_dmabuf_fd"); error != 0)
    return error;
  return export_range(fd, {.address = addr, .bytes = size, .offset = 0});
}

// The library itself refuses unknown flags, before it checks the fd.
int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size,
                                                  uint64_t offset, uint32_t flags) {
  if (const int error = injected("hlthunk_device_mapped_memory_export_dmabuf_fd"); error != 0)
    return error;
  if (flags != (O_RDWR | O_CLOEXEC)) return -EINVAL;
  return export_range(fd, {.address = addr, .bytes = size, .offset = offset});
}

void* hlthunk_malloc(size_t size) { return std::calloc(1, size); }

void hlthunk_free(void* pt) { std::free(pt); }
