/* SPDX-License-Identifier: MIT
 *
 * The operations and layouts that hlthunk_get_info() passes to the kernel driver, and that the
 * emulation answers. The kernel's hw_ip structure is laid out differently from hl-thunk's, which
 * copies it field by field.
 */
#ifndef HBMWIRE_EMULATION_GAUDI_ABI_HL_INFO_H
#define HBMWIRE_EMULATION_GAUDI_ABI_HL_INFO_H

#include <stdint.h>

#include "emulation/gaudi/abi/hl_thunk.h"

#define HL_INFO_HW_IP_INFO 0
#define HL_INFO_DRAM_USAGE 2
#define HL_INFO_HW_IDLE 3
#define HL_INFO_DEVICE_STATUS 4
#define HL_INFO_DEVICE_UTILIZATION 6
#define HL_INFO_CLK_RATE 8
#define HL_INFO_RESET_COUNT 9
#define HL_INFO_TIME_SYNC 10
#define HL_INFO_CLK_THROTTLE_REASON 13
#define HL_INFO_OPEN_STATS 18
#define HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES 26

struct hl_info_args {
  uint64_t return_pointer;
  uint32_t return_size;
  uint32_t op;
  uint32_t argument; /* the driver's union of per-operation arguments */
  uint32_t pad;
};

struct hl_info_hw_ip_info {
  uint64_t sram_base_address;
  uint64_t dram_base_address;
  uint64_t dram_size;
  uint32_t sram_size;
  uint32_t num_of_events;
  uint32_t device_id;
  uint32_t module_id;
  uint32_t decoder_enabled_mask;
  uint16_t first_available_interrupt_id;
  uint16_t server_type;
  uint32_t cpld_version;
  uint32_t psoc_pci_pll_nr;
  uint32_t psoc_pci_pll_nf;
  uint32_t psoc_pci_pll_od;
  uint32_t psoc_pci_pll_div_factor;
  uint8_t tpc_enabled_mask;
  uint8_t dram_enabled;
  uint8_t security_enabled;
  uint8_t mme_master_slave_mode;
  uint8_t cpucp_version[HL_INFO_VERSION_MAX_LEN];
  uint8_t card_name[HL_INFO_CARD_NAME_MAX_LEN];
  uint64_t tpc_enabled_mask_ext;
  uint64_t dram_page_size;
  uint32_t edma_enabled_mask;
  uint16_t number_of_user_interrupts;
  uint8_t interposer_version;
  uint8_t substrate_version;
  uint64_t pdma_user_owned_ch_mask;
  uint64_t device_mem_alloc_default_page_size;
  uint64_t nic_ports_mask;
  uint64_t nic_ports_external_mask;
  uint32_t mme_enabled_mask;
  uint8_t odp_supported;
  uint8_t revision_id;
  uint16_t tpc_interrupt_id;
  uint32_t rotator_enabled_mask;
  uint32_t sched_arc_enabled_mask;
  uint64_t engine_core_interrupt_reg_addr;
  uint64_t reserved_dram_size;
};

struct hl_info_dram_usage {
  uint64_t dram_free_mem;
  uint64_t ctx_dram_mem;
};

struct hl_info_hw_idle {
  uint32_t is_idle;
  uint32_t busy_engines_mask;
  uint64_t busy_engines_mask_ext[HLTHUNK_BUSY_ENGINES_MASK_SIZE];
};

struct hl_info_device_utilization {
  uint32_t utilization;
  uint32_t pad;
};

struct hl_info_clk_rate {
  uint32_t cur_clk_rate_mhz;
  uint32_t max_clk_rate_mhz;
};

struct hl_info_device_status {
  uint32_t status;
  uint32_t pad;
};

struct hl_open_stats_info {
  uint64_t open_counter;
  uint64_t last_open_period_ms;
  uint8_t is_compute_ctx_active;
  uint8_t compute_ctx_in_release;
  uint8_t pad[6];
};

struct hl_info_dev_memalloc_page_sizes {
  uint64_t page_order_bitmask;
};

#endif
