// SPDX-License-Identifier: MIT
#include "emulation/gaudi/card_kind.hpp"

namespace hbmwire::emulation::gaudi {
namespace {

constexpr std::uint64_t kGaudiUserBase = 0x2000'0000;  // below: driver and firmware
constexpr std::uint64_t kGaudi2DramBase = 0x1001'0000'0000'0000;
constexpr std::uint64_t kGaudi3DramBase = 0x0201'0000'0000'0000;

constexpr CardKind kGaudi{
    .name = "GAUDI",
    .device_name = HLTHUNK_DEVICE_GAUDI,
    .pci_device_id = 0x1000,
    .card_name = "HL205",
    .has_dram_mmu = false,
    .hbm_bytes = 32 * kGiB,
    .user_begin = kGaudiUserBase,
    .page_bytes = 2 * kMiB,
    .dram = {kGaudiUserBase, 32 * kGiB},
    .host = {0x0001'0000'0000'0000, 0x0003'0000'0000'0000},
    .sram_base = 0x7F'F000'0000,
    .sram_bytes = 20 * kMiB,
    .tpc_mask = 0xFF,
    .server_type = 1,  // HLS1
    .clock_mhz = 1350,
};

// Virtual addresses start right above the physical ones, so the first mapping on every real Gaudi2
// is at 0x1001001800000000.
constexpr CardKind kGaudi2{
    .name = "GAUDI2",
    .device_name = HLTHUNK_DEVICE_GAUDI2,
    .pci_device_id = 0x1020,
    .card_name = "HL225",
    .hbm_bytes = 96 * kGiB,
    .user_begin = 768 * kMiB,  // the driver keeps the first page: firmware, NIC, page tables
    .page_bytes = 768 * kMiB,
    .dram = {kGaudi2DramBase + 96 * kGiB, 0x1002'0000'0000'0000},
    .host = {0xFFF0'0000'0000'0000, 0xFFF0'8000'0000'0000},
    .tpc_mask = 0xFF'FFFF,
    .server_type = 5,  // HLS2
    .clock_mhz = 1650,
};
static_assert(kGaudi2.dram.begin == 0x1001'0018'0000'0000);
static_assert((kGaudi2.hbm_bytes - kGaudi2.user_begin) / kGaudi2.page_bytes == 127 &&
              (kGaudi2.hbm_bytes - kGaudi2.user_begin) % kGaudi2.page_bytes == 0);

// The memory that the driver keeps on a Gaudi3, in pages of 32 MiB: one for the firmware; five for
// the page tables (5 MiB) and four buffers of the trace unit (32 MiB each).
constexpr std::uint64_t kGaudi3Reserved = 6 * 32 * kMiB;

constexpr CardKind kGaudi3{
    .name = "GAUDI3",
    .device_name = HLTHUNK_DEVICE_GAUDI3,
    .pci_device_id = 0x1060,
    .card_name = "HL325",
    .hbm_bytes = 128 * kGiB,
    .user_begin = kGaudi3Reserved,
    .page_bytes = 32 * kMiB,
    .page_sizes = 32 * kMiB | 64 * kMiB | 256 * kMiB | 512 * kMiB | 1 * kGiB | 2 * kGiB,
    .dram = {kGaudi3DramBase + 128 * kGiB, 0x0202'0000'0000'0000},
    .host = {0xFF70'0000'0000'0000, 0xFF70'8000'0000'0000},
    .tpc_mask = 0xFFFF'FFFF'FFFF'FFFF,
    .server_type = 8,  // HLS3, full scale-in
    .clock_mhz = 1600,
};

}  // namespace

const CardKind* find_card_kind(std::string_view device_type) {
  // Longer names first, because "GAUDI" is a prefix of all.
  for (const CardKind* kind : {&kGaudi3, &kGaudi2, &kGaudi}) {
    if (device_type.starts_with(kind->name)) return kind;
  }
  return nullptr;
}

hlthunk_device_name device_name_of(std::uint32_t pci_device_id) {
  switch (pci_device_id) {
    case 0x0001:
      return HLTHUNK_DEVICE_GOYA;
    case 0x1000:
    case 0x1010:
      return HLTHUNK_DEVICE_GAUDI;
    case 0x1001:
    case 0x1011:
      return HLTHUNK_DEVICE_GAUDI_HL2000M;
    case 0x1020:
      return HLTHUNK_DEVICE_GAUDI2;
    case 0x1060:
    case 0x1061:
    case 0x1062:
    case 0x1063:
      return HLTHUNK_DEVICE_GAUDI3;
    default:
      return HLTHUNK_DEVICE_INVALID;
  }
}

}  // namespace hbmwire::emulation::gaudi
