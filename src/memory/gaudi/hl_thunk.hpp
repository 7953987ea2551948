// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "hbmwire/error.hpp"

#include "base/dynamic_library.hpp"

// What hbmwire uses of libhl-thunk.so, declared from its documented binary interface (hl-thunk 6.3,
// hlthunk.h).
namespace hbmwire::memory::gaudi {

/// struct hlthunk_hw_ip_info: 336 bytes, of which these fields are used.
struct HwIpInfo {
  std::uint64_t sram_base;
  std::uint64_t dram_base;
  std::uint64_t dram_size;
  std::uint32_t sram_size;
  std::uint32_t num_of_events;
  std::uint32_t device_id;
  std::uint8_t unused_a[188 - 36];
  std::uint32_t module_id;
  std::uint8_t unused_b[224 - 192];
  std::uint64_t dram_page_size;
  std::uint8_t unused_c[264 - 232];
  std::uint64_t default_page_size;
  std::uint8_t unused_d[336 - 272];
};

static_assert(sizeof(HwIpInfo) == 336);
static_assert(offsetof(HwIpInfo, device_id) == 32 && offsetof(HwIpInfo, module_id) == 188);
static_assert(offsetof(HwIpInfo, dram_page_size) == 224 &&
              offsetof(HwIpInfo, default_page_size) == 264);

/// enum hlthunk_device_name: any card.
inline constexpr int kDontCare = 4;

/// The functions of libhl-thunk.so. The pointers are valid as long as the object.
class HlThunk {
 public:
  /// Errors: Stage::probe: the library is not there, or too old: `hlthunk_device_memory_alloc`
  /// gained an argument between 5.15 and 5.20, and only 6.3 and newer can export mapped memory;
  /// that function's presence tells.
  static Result<HlThunk> load();

  // Names and types as the vendor's. Negative errno on failure, or -1 with errno (open).
  int (*open)(int device_name, const char* bus_id) = nullptr;
  int (*close)(int fd) = nullptr;
  int (*get_hw_ip_info)(int fd, HwIpInfo* info) = nullptr;
  int (*get_pci_bus_id_from_fd)(int fd, char* bus_id, int length) = nullptr;
  std::uint64_t (*device_memory_alloc)(int fd, std::uint64_t size, std::uint64_t page_size,
                                       bool contiguous, bool shared) = nullptr;
  int (*device_memory_free)(int fd, std::uint64_t handle) = nullptr;
  std::uint64_t (*device_memory_map)(int fd, std::uint64_t handle, std::uint64_t hint) = nullptr;
  int (*memory_unmap)(int fd, std::uint64_t device_address) = nullptr;
  int (*export_dmabuf_fd)(int fd, std::uint64_t address, std::uint64_t size, std::uint64_t offset,
                          std::uint32_t flags) = nullptr;

 private:
  DynamicLibrary library_;
};

/// A positive errno from hl-thunk's result: -errno, or -1 with errno.
[[nodiscard]] int errno_of(int result) noexcept;

/// Which card: a PCI address, an index below /sys/class/accel, or empty for any. The PCI address;
/// empty for any.
Result<std::string> resolve_card(const std::string& card);

/// The dma-buf of `size` bytes (rounded up to whole 4096-byte pages) from the base of a mapping on.
Result<int> export_mapping(const HlThunk& thunk, int device_fd, std::uint64_t base,
                           std::uint64_t size, std::string_view card);

/// NUMA node of a PCI device from sysfs; -1 when it doesn't tell.
[[nodiscard]] int numa_node_of(const std::string& pci_address);

/// "gaudi2" and so on, from a PCI device id.
[[nodiscard]] const char* model_name(std::uint32_t device_id) noexcept;

/// The kernel exports whole pages (kernel >= 6.7 insists on 4096-byte multiples).
inline constexpr std::uint64_t kExportPage = 4096;

[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t size, std::uint64_t page) noexcept {
  return (size + page - 1) / page * page;
}

}  // namespace hbmwire::memory::gaudi
