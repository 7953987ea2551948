// SPDX-License-Identifier: MIT
#pragma once

#include <linux/ioctl.h>

#include <cstddef>
#include <cstdint>

// The part of the interface between the driver habanalabs and programs that the library uses:
// numbers and layouts of include/uapi/drm/habanalabs_accel.h (Linux 6.12). A test compares them
// with the kernel's own header where the driver is built from it (tests/kernel).
namespace hbmwire::memory::gaudi::abi {

/// struct hl_info_args
struct InfoArgs {
  std::uint64_t return_pointer = 0;
  std::uint32_t return_size = 0;
  std::uint32_t op = 0;
  std::uint32_t of_some_ops = 0;
  std::uint32_t zero = 0;
};

static_assert(sizeof(InfoArgs) == 24);
static_assert(offsetof(InfoArgs, return_size) == 8 && offsetof(InfoArgs, op) == 12);

inline constexpr std::uint32_t kInfoHwIp = 0;

/// struct hl_info_hw_ip_info. Older drivers fill in less of it; the rest stays 0.
struct HwIpInfo {
  std::uint64_t sram_base;
  std::uint64_t dram_base;
  std::uint64_t dram_size;
  std::uint32_t sram_size;
  std::uint32_t num_of_events;
  std::uint32_t device_id;
  std::uint32_t module_id;
  std::uint8_t unused_a[224 - 40];
  std::uint64_t dram_page_size;
  std::uint8_t unused_b[304 - 232];
};

static_assert(sizeof(HwIpInfo) == 304);
static_assert(offsetof(HwIpInfo, dram_size) == 16 && offsetof(HwIpInfo, device_id) == 32);
static_assert(offsetof(HwIpInfo, module_id) == 36 && offsetof(HwIpInfo, dram_page_size) == 224);

/// union hl_mem_args. Input: three words, with a meaning for each operation. Output: the first
/// word.
struct MemoryArgs {
  std::uint64_t word[3] = {};
  std::uint32_t op = 0;
  std::uint32_t flags = 0;
  std::uint32_t context = 0;
  std::uint32_t elements = 0;
};

static_assert(sizeof(MemoryArgs) == 40);
static_assert(offsetof(MemoryArgs, op) == 24 && offsetof(MemoryArgs, flags) == 28);

// word[0], [1], [2] of each operation, and the result in word[0].
inline constexpr std::uint32_t kMemoryAlloc = 0;   // size, page size -> handle
inline constexpr std::uint32_t kMemoryFree = 1;    // handle
inline constexpr std::uint32_t kMemoryMap = 2;     // hint, handle -> address
inline constexpr std::uint32_t kMemoryUnmap = 3;   // address
inline constexpr std::uint32_t kMemoryExport = 5;  // address, size, offset -> fd (32 bits)

/// The driver's calls have these numbers since it is a DRM driver (Linux 6.7), and had others
/// before. Each kind of driver answers ENOTTY to the other's numbers.
struct Request {
  unsigned long now;
  unsigned long before_6_7;
};

inline constexpr Request kInfo{.now = _IOWR('d', 0x40, InfoArgs),
                               .before_6_7 = _IOWR('H', 0x01, InfoArgs)};
inline constexpr Request kMemory{.now = _IOWR('d', 0x44, MemoryArgs),
                                 .before_6_7 = _IOWR('H', 0x05, MemoryArgs)};

static_assert(kInfo.now == 0xC0186440 && kMemory.now == 0xC0286444);
static_assert(kInfo.before_6_7 == 0xC0184801 && kMemory.before_6_7 == 0xC0284805);

}  // namespace hbmwire::memory::gaudi::abi
