// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "hbmwire/error.hpp"

#include "base/dynamic_library.hpp"

// The part of libhl-thunk.so that the library uses, declared from its documented binary interface
// (hl-thunk 6.3, hlthunk.h).
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

/// The version of libhl-thunk.so. The library has no versioned symbols, so missing functions
/// tell.
enum class ThunkAbi : std::uint8_t {
  /// Before 5.20: hlthunk_device_memory_alloc() has no page size argument, and memory cannot be
  /// exported.
  before_5_20,
  /// 5.20 to 6.2: with that argument, but mapped memory cannot be exported.
  before_6_3,
  full,
};

/// The functions of libhl-thunk.so. The pointers are valid as long as the object.
class HlThunk {
 public:
  /// Loads the first of `names` that can be loaded, with any ABI. abi() tells what it can do: only
  /// a full one has functions to allocate and export. Errors: Stage::probe (no such library, or
  /// something else under its name).
  static Result<std::shared_ptr<const HlThunk>> load(std::initializer_list<const char*> names = {
                                                         "libhl-thunk.so",
                                                         "/usr/lib/habanalabs/libhl-thunk.so"});

  [[nodiscard]] ThunkAbi abi() const noexcept { return abi_; }

  /// "libhl-thunk.so 1.18.0", as far as the library tells.
  [[nodiscard]] const std::string& description() const noexcept { return description_; }

  // Names and types are the vendor's. On failure they return a negative errno, or -1 with errno
  // (open).
  int (*open)(int device_name, const char* bus_id) = nullptr;
  int (*open_control)(int index, const char* bus_id) = nullptr;
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
  /// The first required function that this library lacks; null if it has all.
  const char* bind();
  void describe();

  DynamicLibrary library_;
  ThunkAbi abi_ = ThunkAbi::full;
  std::string description_ = "libhl-thunk.so";
};

/// The reason why a library with that ABI cannot provide memory.
[[nodiscard]] Error old_abi_error(ThunkAbi abi) noexcept;

/// The positive errno of hl-thunk's result, which is -errno, or -1 with errno.
[[nodiscard]] int errno_of(int result) noexcept;

}  // namespace hbmwire::memory::gaudi
