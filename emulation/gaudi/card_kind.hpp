// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>

#include "emulation/common/ranges.hpp"
#include "emulation/gaudi/abi/hl_thunk.h"

namespace hbmwire::emulation::gaudi {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kHostPage = 4 * kKiB;      ///< the MMU's regular page of host memory
inline constexpr std::uint64_t kHostHugePage = 2 * kMiB;  ///< the driver prefers to map these

/// The differences between the generations of cards. The values are from the driver's headers, as
/// noted in card_kind.cpp.
struct CardKind {
  std::string_view name;
  hlthunk_device_name device_name = HLTHUNK_DEVICE_INVALID;
  std::uint32_t pci_device_id = 0;
  std::string_view card_name;
  bool has_dram_mmu = true;  ///< false: HBM is addressed physically and the driver allocates none
  std::uint64_t hbm_bytes = 0;  ///< of the whole HBM, and of the backing file
  /// The first byte of the backing file for the user. The driver keeps the bytes before it.
  std::uint64_t user_begin = 0;
  std::uint64_t page_bytes = 0;  ///< default page size of device memory
  std::uint64_t page_sizes = 0;  ///< mask of selectable page sizes; 0: only the default
  AddressRange dram;             ///< device addresses of HBM: virtual, or physical without an MMU
  AddressRange host;             ///< device addresses of mapped host memory
  std::uint64_t sram_base = 0;
  std::uint32_t sram_bytes = 0;
  std::uint64_t tpc_mask = 0;
  std::uint16_t server_type = 0;
  std::uint32_t clock_mhz = 0;
};

/// Finds a kind by sysfs `device_type` ("GAUDI2", "GAUDI2B", "GAUDI SEC", ...). Returns nullptr if
/// that is not a Gaudi.
const CardKind* find_card_kind(std::string_view device_type);

/// The name that hl-thunk gives to a card with that PCI device id.
hlthunk_device_name device_name_of(std::uint32_t pci_device_id);

}  // namespace hbmwire::emulation::gaudi
