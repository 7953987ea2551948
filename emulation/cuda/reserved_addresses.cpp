// SPDX-License-Identifier: MIT
#include "emulation/cuda/reserved_addresses.hpp"

#include <sys/mman.h>

#include <bit>

#include "emulation/common/gpu_memory.hpp"
#include "emulation/common/ranges.hpp"
#include "emulation/cuda/address_space.hpp"

namespace hbmwire::emulation::cuda {
namespace {

void* pointer(std::uint64_t address) { return std::bit_cast<void*>(address); }

}  // namespace

std::uint64_t reserve_addresses(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t all = bytes + alignment;
  if (all < bytes) return 0;
  void* memory =
      ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  const auto begin = std::bit_cast<std::uint64_t>(memory);
  const std::uint64_t address = round_up(begin, alignment);
  if (address != begin) ::munmap(memory, address - begin);
  const std::uint64_t left = begin + all - (address + bytes);
  if (left != 0) ::munmap(pointer(address + bytes), left);
  return address;
}

void release_addresses(std::uint64_t address, std::uint64_t bytes) {
  ::munmap(pointer(address), bytes);
}

bool show_to_cpu(std::uint64_t address, std::uint64_t bytes, const GpuMemory* memory,
                 const Physical* physical) {
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  if (physical == nullptr) return ::mprotect(pointer(address), bytes, kAccess) == 0;
  return ::mmap(pointer(address), bytes, kAccess, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                memory->file(), static_cast<off_t>(physical->range().offset_bytes)) != MAP_FAILED;
}

}  // namespace hbmwire::emulation::cuda
