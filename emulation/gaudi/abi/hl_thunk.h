/* SPDX-License-Identifier: MIT
 *
 * The binary interface of libhl-thunk.so as far as the emulation offers it: names, signatures,
 * enumerator values and layouts are those of the vendor's library (hl-thunk 1.10 to 1.18), the
 * wording is ours. Plain C, so that a test or a tool may include it from either language.
 */
#ifndef HBMWIRE_EMULATION_GAUDI_ABI_HL_THUNK_H
#define HBMWIRE_EMULATION_GAUDI_ABI_HL_THUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HLTHUNK_MAX_MINOR 256

#define HL_INFO_VERSION_MAX_LEN 128
#define HL_INFO_CARD_NAME_MAX_LEN 16

/* Flags of a mapping, as the kernel's HL_MEM_OP_MAP takes them. */
#define HL_MEM_CONTIGUOUS 0x1
#define HL_MEM_SHARED 0x2
#define HL_MEM_USERPTR 0x4
#define HL_MEM_FORCE_HINT 0x8
#define HL_MEM_ODP 0x20
#define HL_MEM_PREFETCH 0x40

enum hlthunk_device_name {
  HLTHUNK_DEVICE_GOYA = 0,
  HLTHUNK_DEVICE_GRECO = 1,
  HLTHUNK_DEVICE_GAUDI = 2,
  HLTHUNK_DEVICE_INVALID = 3,
  HLTHUNK_DEVICE_DONT_CARE = 4,
  HLTHUNK_DEVICE_GAUDI2 = 5,
  HLTHUNK_DEVICE_GAUDI_HL2000M = 6,
  HLTHUNK_DEVICE_GAUDI3 = 7,
  HLTHUNK_DEVICE_GAUDI2B = 8,
  HLTHUNK_DEVICE_FS1 = 9,
  HLTHUNK_DEVICE_GAUDI2C = 10,
  HLTHUNK_DEVICE_GAUDI2D = 11,
  HLTHUNK_DEVICE_MAX
};

enum hl_device_status {
  HL_DEVICE_STATUS_OPERATIONAL = 0,
  HL_DEVICE_STATUS_IN_RESET = 1,
  HL_DEVICE_STATUS_MALFUNCTION = 2,
  HL_DEVICE_STATUS_NEEDS_RESET = 3,
  HL_DEVICE_STATUS_IN_DEVICE_CREATION = 4,
  HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE = 5
};

struct hlthunk_hw_ip_info {
  uint64_t sram_base_address;
  uint64_t dram_base_address;
  uint64_t dram_size;
  uint32_t sram_size;
  uint32_t num_of_events;
  uint32_t device_id;
  uint32_t cpld_version;
  uint32_t psoc_pci_pll_nr;
  uint32_t psoc_pci_pll_nf;
  uint32_t psoc_pci_pll_od;
  uint32_t psoc_pci_pll_div_factor;
  uint16_t tpc_enabled_mask;
  uint8_t dram_enabled;
  uint8_t cpucp_version[HL_INFO_VERSION_MAX_LEN];
  uint32_t module_id;
  uint8_t card_name[HL_INFO_CARD_NAME_MAX_LEN];
  uint32_t decoder_enabled_mask;
  uint8_t mme_master_slave_mode;
  uint64_t tpc_enabled_mask_ext;
  uint64_t dram_page_size;
  uint16_t first_available_interrupt_id;
  uint32_t edma_enabled_mask;
  uint16_t server_type;
  uint64_t pdma_user_owned_ch_mask;
  uint16_t number_of_user_interrupts;
  uint64_t device_mem_alloc_default_page_size;
  uint64_t nic_ports_mask;
  uint8_t interposer_version;
  uint8_t substrate_version;
  uint64_t nic_ports_external_mask;
  uint32_t mme_enabled_mask;
  uint8_t odp_supported;
  uint8_t security_enabled;
  uint8_t revision_id;
  uint16_t tpc_interrupt_id;
  uint64_t engine_core_interrupt_reg_addr;
  uint32_t rotator_enabled_mask;
  uint32_t sched_arc_enabled_mask;
  uint64_t reserved_dram_size;
};

struct hlthunk_dram_usage_info {
  uint64_t dram_free_mem;
  uint64_t ctx_dram_mem;
};

struct hlthunk_open_stats_info {
  uint64_t open_counter;
  uint64_t last_open_period_ms;
  uint8_t is_compute_ctx_active;
  uint8_t compute_ctx_in_release;
};

struct hlthunk_pci_counters_info {
  uint64_t rx_throughput;
  uint64_t tx_throughput;
  uint32_t replay_cnt;
};

#define HLTHUNK_BUSY_ENGINES_MASK_SIZE 4
#define HL_CLK_THROTTLE_TYPE_MAX 2
#define HL_INFO_MAC_ADDR_MAX_NUM 128
#define DRAM_ROW_REPLACE_MAX 32

struct hlthunk_engines_idle_info {
  uint32_t is_idle;
  uint32_t pad;
  uint64_t mask[HLTHUNK_BUSY_ENGINES_MASK_SIZE];
};

struct hlthunk_reset_count_info {
  uint32_t hard_reset_count;
  uint32_t soft_reset_count;
};

struct hlthunk_time_sync_info {
  uint64_t device_time;
  uint64_t host_time;
  uint64_t tsc_time;
};

struct hlthunk_clk_throttle_info {
  uint32_t clk_throttle_reason_bitmask;
  uint64_t clk_throttle_start_timestamp_us[HL_CLK_THROTTLE_TYPE_MAX];
  uint64_t clk_throttle_duration_ns[HL_CLK_THROTTLE_TYPE_MAX];
};

struct hlthunk_mac_addr_info {
  uint8_t array[HL_INFO_MAC_ADDR_MAX_NUM][6];
  uint64_t mask[2];
};

struct hlthunk_nic_get_ports_masks_out {
  uint64_t ports_mask;
  uint64_t ext_ports_mask;
};

struct hlthunk_dram_row_info {
  uint8_t dram_idx;
  uint8_t pc;
  uint8_t sid;
  uint8_t bank_idx;
  uint16_t row_addr;
  uint8_t replaced_row_cause;
  uint8_t pad;
};

struct hlthunk_dram_replaced_rows_info {
  uint16_t num_replaced_rows;
  uint8_t pad[6];
  struct hlthunk_dram_row_info replaced_rows[DRAM_ROW_REPLACE_MAX];
};

struct hlthunk_cs_in {
  void* chunks_restore;
  void* chunks_execute;
  uint32_t num_chunks_restore;
  uint32_t num_chunks_execute;
  uint32_t flags;
};

struct hlthunk_cs_out {
  uint64_t seq;
  uint32_t status;
  uint16_t sob_count_before_submission;
};

struct hl_info_args; /* abi/hl_info.h */

#pragma GCC visibility push(default)

/* Open and identity */
int hlthunk_open(enum hlthunk_device_name device_name, const char* busid);
int hlthunk_open_by_module_id(uint32_t module_id);
int hlthunk_open_control(int dev_id, const char* busid);
int hlthunk_open_control_by_name(enum hlthunk_device_name device_name, const char* busid);
int hlthunk_open_control_by_module_id(uint32_t module_id);
int hlthunk_open_control_by_bus_id(const char* busid);
int hlthunk_close(int fd);
uint32_t hlthunk_get_device_id_from_fd(int fd);
enum hlthunk_device_name hlthunk_get_device_name_from_fd(int fd);
int hlthunk_get_pci_bus_id_from_fd(int fd, char* pci_bus_id, int len);
int hlthunk_get_device_index_from_pci_bus_id(const char* busid);
int hlthunk_get_device_index_from_module_id(uint32_t module_id);
int hlthunk_get_device_count(enum hlthunk_device_name device_name);
char* hlthunk_get_version(void);

/* Information */
int hlthunk_get_hw_ip_info(int fd, struct hlthunk_hw_ip_info* hw_ip);
int hlthunk_get_dram_usage(int fd, struct hlthunk_dram_usage_info* dram_usage);
int hlthunk_get_device_status_info(int fd);
int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t* page_order_bitmask);
int hlthunk_get_open_stats(int fd, struct hlthunk_open_stats_info* open_stats);
int hlthunk_get_clk_rate(int fd, uint32_t* cur_clk_mhz, uint32_t* max_clk_mhz);
int hlthunk_get_pci_counters_info(int fd, struct hlthunk_pci_counters_info* info);
bool hlthunk_is_device_idle(int fd);
int hlthunk_get_busy_engines_mask(int fd, struct hlthunk_engines_idle_info* info);
int hlthunk_get_device_utilization(int fd, uint32_t period_ms, uint32_t* rate);
int hlthunk_get_reset_count_info(int fd, struct hlthunk_reset_count_info* info);
int hlthunk_get_time_sync_info(int fd, struct hlthunk_time_sync_info* info);
int hlthunk_get_clk_throttle_info(int fd, struct hlthunk_clk_throttle_info* info);
int hlthunk_get_dram_replaced_rows_info(int fd, struct hlthunk_dram_replaced_rows_info* info);
int hlthunk_get_dram_pending_rows_info(int fd, uint32_t* out);
int hlthunk_get_mac_addr_info(int fd, struct hlthunk_mac_addr_info* info);
int hlthunk_nic_get_ports_masks(int fd, struct hlthunk_nic_get_ports_masks_out* out);
int hlthunk_get_info(int fd, struct hl_info_args* info);

/* Memory */
uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous,
                                     bool shared);
int hlthunk_device_memory_free(int fd, uint64_t handle);
uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint_addr);
uint64_t hlthunk_host_memory_map(int fd, void* host_virt_addr, uint64_t hint_addr,
                                 uint64_t host_size);
uint64_t hlthunk_host_memory_map_flags(int fd, void* host_virt_addr, uint64_t hint_addr,
                                       uint64_t host_size, uint32_t flags);
int hlthunk_memory_unmap(int fd, uint64_t device_virt_addr);
int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint32_t flags);
int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size,
                                                  uint64_t offset, uint32_t flags);
void* hlthunk_malloc(size_t size);
void hlthunk_free(void* pt);

/* Command submission: present, not modelled (-EOPNOTSUPP) but for the flush */
int hlthunk_request_command_buffer(int fd, uint32_t cb_size, uint64_t* cb_handle);
int hlthunk_request_mapped_command_buffer(int fd, uint32_t cb_size, uint64_t* cb_handle);
int hlthunk_destroy_command_buffer(int fd, uint64_t cb_handle);
int hlthunk_get_mapped_cb_device_va_by_handle(int fd, uint64_t cb_handle, uint64_t* device_va);
int hlthunk_command_submission(int fd, struct hlthunk_cs_in* in, struct hlthunk_cs_out* out);
int hlthunk_command_submission_timeout(int fd, struct hlthunk_cs_in* in, struct hlthunk_cs_out* out,
                                       uint32_t timeout);
int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t* status);
int hlthunk_cs_flush_pci_hbw_writes(int fd);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
