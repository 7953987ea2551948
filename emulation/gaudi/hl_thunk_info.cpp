// SPDX-License-Identifier: MIT
//
// hl-thunk: information about a card. All these functions also work on control fds. Fields that the
// emulation does not model are 0.
#include <algorithm>
#include <bit>
#include <cstring>
#include <ctime>

#include "emulation/gaudi/abi/hl_info.h"
#include "emulation/gaudi/abi/hl_thunk.h"
#include "emulation/gaudi/hl_thunk_calls.hpp"

using namespace hbmwire::emulation::gaudi;

// Layouts, compared with the vendor's headers (emulation/docs/gaudi.md).
static_assert(sizeof(hlthunk_hw_ip_info) == 336);
static_assert(offsetof(hlthunk_hw_ip_info, dram_base_address) == 8);
static_assert(offsetof(hlthunk_hw_ip_info, device_id) == 32);
static_assert(offsetof(hlthunk_hw_ip_info, psoc_pci_pll_nr) == 40);
static_assert(offsetof(hlthunk_hw_ip_info, tpc_enabled_mask) == 56);
static_assert(offsetof(hlthunk_hw_ip_info, cpucp_version) == 59);
static_assert(offsetof(hlthunk_hw_ip_info, module_id) == 188);
static_assert(offsetof(hlthunk_hw_ip_info, card_name) == 192);
static_assert(offsetof(hlthunk_hw_ip_info, decoder_enabled_mask) == 208);
static_assert(offsetof(hlthunk_hw_ip_info, mme_master_slave_mode) == 212);
static_assert(offsetof(hlthunk_hw_ip_info, tpc_enabled_mask_ext) == 216);
static_assert(offsetof(hlthunk_hw_ip_info, dram_page_size) == 224);
static_assert(offsetof(hlthunk_hw_ip_info, first_available_interrupt_id) == 232);
static_assert(offsetof(hlthunk_hw_ip_info, edma_enabled_mask) == 236);
static_assert(offsetof(hlthunk_hw_ip_info, server_type) == 240);
static_assert(offsetof(hlthunk_hw_ip_info, pdma_user_owned_ch_mask) == 248);
static_assert(offsetof(hlthunk_hw_ip_info, number_of_user_interrupts) == 256);
static_assert(offsetof(hlthunk_hw_ip_info, device_mem_alloc_default_page_size) == 264);
static_assert(offsetof(hlthunk_hw_ip_info, nic_ports_mask) == 272);
static_assert(sizeof(hl_info_hw_ip_info) == 304);
static_assert(offsetof(hl_info_hw_ip_info, module_id) == 36);
static_assert(offsetof(hl_info_hw_ip_info, card_name) == 200);
static_assert(offsetof(hl_info_hw_ip_info, dram_page_size) == 224);
static_assert(sizeof(hl_info_args) == 24);
static_assert(sizeof(hl_info_hw_idle) == 40);
static_assert(sizeof(hlthunk_dram_usage_info) == 16);
static_assert(sizeof(hlthunk_engines_idle_info) == 40);
static_assert(sizeof(hlthunk_clk_throttle_info) == 40);
static_assert(sizeof(hlthunk_mac_addr_info) == 784);
static_assert(sizeof(hlthunk_dram_replaced_rows_info) == 264);
static_assert(sizeof(hlthunk_cs_in) == 32);
static_assert(sizeof(hlthunk_cs_out) == 16);

namespace {

hl_info_hw_ip_info hw_ip_of(const Card& card) {
  const CardKind& kind = card.kind();
  hl_info_hw_ip_info info{};
  info.sram_base_address = kind.sram_base;
  info.sram_size = kind.sram_bytes;
  info.dram_base_address = kind.dram.begin;
  info.dram_size = kind.hbm_bytes - kind.user_begin;
  info.device_id = card.identity().pci_device_id;
  info.module_id = card.identity().module_id;
  info.server_type = kind.server_type;
  info.tpc_enabled_mask = static_cast<std::uint8_t>(kind.tpc_mask & 0xFF);
  info.tpc_enabled_mask_ext = kind.tpc_mask;
  info.dram_enabled = 1;
  constexpr std::string_view kFirmware = "hbmwire emulation";
  std::memcpy(info.cpucp_version, kFirmware.data(), kFirmware.size());
  constexpr std::size_t kLongestName = HL_INFO_CARD_NAME_MAX_LEN - 1;
  std::memcpy(info.card_name, kind.card_name.data(), std::min(kind.card_name.size(), kLongestName));
  info.dram_page_size = kind.page_bytes;
  info.device_mem_alloc_default_page_size = kind.page_bytes;
  info.reserved_dram_size = kind.user_begin;
  return info;
}

int dram_usage_of(Card& card, bool primary, hl_info_dram_usage& result) {
  MemoryUsage usage;
  if (const int error = card.usage(usage); error != 0) return error;
  result = {.dram_free_mem = usage.free_bytes, .ctx_dram_mem = primary ? usage.used_bytes : 0};
  return 0;
}

int open_stats_of(Card& card, hl_open_stats_info& result) {
  if (card.state() == nullptr) return -errno;
  const StateLock content(*card.state());
  result.open_counter = content->open_count;
  result.is_compute_ctx_active = content->opened_ns != 0 ? 1 : 0;
  result.last_open_period_ms = content->last_period_ns / 1'000'000;
  return 0;
}

hlthunk_time_sync_info time_sync() {
  const auto nanoseconds = [](clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  };
  const std::uint64_t since_boot = nanoseconds(CLOCK_MONOTONIC_RAW);
  return {
      .device_time = since_boot, .host_time = nanoseconds(CLOCK_REALTIME), .tsc_time = since_boot};
}

/// Answers a question with the same value for every card.
template <typename Answer>
int same_of_every_card(const char* call, int fd, Answer* to, const Answer& value) {
  if (const int error = injected(call); error != 0) return error;
  if (to == nullptr) return -EINVAL;
  Card* card = nullptr;
  const int error = card_for_information(fd, card);
  if (error == 0) *to = value;
  return error;
}

// Copies as much of the answer as fits, as the driver does.
template <typename Answer>
int answer(const hl_info_args& args, const Answer& value) {
  void* destination = std::bit_cast<void*>(args.return_pointer);
  if (destination == nullptr || args.return_size == 0) return -EINVAL;
  std::memcpy(destination, &value, std::min<std::size_t>(sizeof(value), args.return_size));
  return 0;
}

}  // namespace

int hlthunk_get_hw_ip_info(int fd, struct hlthunk_hw_ip_info* hw_ip) {
  if (const int error = injected("hlthunk_get_hw_ip_info"); error != 0) return error;
  if (hw_ip == nullptr) return -EINVAL;
  Card* card = nullptr;
  if (const int error = card_for_information(fd, card); error != 0) return error;
  const hl_info_hw_ip_info info = hw_ip_of(*card);
  *hw_ip = {};
  hw_ip->sram_base_address = info.sram_base_address;
  hw_ip->sram_size = info.sram_size;
  hw_ip->dram_base_address = info.dram_base_address;
  hw_ip->dram_size = info.dram_size;
  hw_ip->device_id = info.device_id;
  hw_ip->module_id = info.module_id;
  hw_ip->server_type = info.server_type;
  hw_ip->tpc_enabled_mask = info.tpc_enabled_mask;
  hw_ip->tpc_enabled_mask_ext = info.tpc_enabled_mask_ext;
  hw_ip->dram_enabled = info.dram_enabled;
  std::ranges::copy(info.cpucp_version, hw_ip->cpucp_version);
  std::ranges::copy(info.card_name, hw_ip->card_name);
  hw_ip->dram_page_size = info.dram_page_size;
  hw_ip->device_mem_alloc_default_page_size = info.device_mem_alloc_default_page_size;
  hw_ip->reserved_dram_size = info.reserved_dram_size;
  return 0;
}

int hlthunk_get_dram_usage(int fd, struct hlthunk_dram_usage_info* dram_usage) {
  if (const int error = injected("hlthunk_get_dram_usage"); error != 0) return error;
  if (dram_usage == nullptr) return -EINVAL;
  Card* card = nullptr;
  hl_info_dram_usage usage{};
  int error = card_for_information(fd, card);
  if (error == 0) error = dram_usage_of(*card, is_primary(fd), usage);
  if (error == 0)
    *dram_usage = {.dram_free_mem = usage.dram_free_mem, .ctx_dram_mem = usage.ctx_dram_mem};
  return error;
}

int hlthunk_get_device_status_info(int fd) {
  Card* card = nullptr;
  int error = injected("hlthunk_get_device_status_info");
  if (error == 0) error = card_for_information(fd, card);
  return error == 0 ? static_cast<int>(card->status()) : error;
}

int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t* page_order_bitmask) {
  if (const int error = injected("hlthunk_get_dev_memalloc_page_orders"); error != 0) return error;
  if (page_order_bitmask == nullptr) return -EINVAL;
  Card* card = nullptr;
  const int error = card_for_information(fd, card);
  if (error == 0) *page_order_bitmask = card->kind().page_sizes;
  return error;
}

int hlthunk_get_open_stats(int fd, struct hlthunk_open_stats_info* open_stats) {
  if (const int error = injected("hlthunk_get_open_stats"); error != 0) return error;
  if (open_stats == nullptr) return -EINVAL;
  Card* card = nullptr;
  hl_open_stats_info stats{};
  int error = card_for_information(fd, card);
  if (error == 0) error = open_stats_of(*card, stats);
  if (error != 0) return error;
  *open_stats = {.open_counter = stats.open_counter,
                 .last_open_period_ms = stats.last_open_period_ms,
                 .is_compute_ctx_active = stats.is_compute_ctx_active,
                 .compute_ctx_in_release = stats.compute_ctx_in_release};
  return 0;
}

int hlthunk_get_clk_rate(int fd, uint32_t* cur_clk_mhz, uint32_t* max_clk_mhz) {
  if (const int error = injected("hlthunk_get_clk_rate"); error != 0) return error;
  if (cur_clk_mhz == nullptr || max_clk_mhz == nullptr) return -EINVAL;
  Card* card = nullptr;
  if (const int error = card_for_information(fd, card); error != 0) return error;
  *cur_clk_mhz = card->kind().clock_mhz;
  *max_clk_mhz = card->kind().clock_mhz;
  return 0;
}

int hlthunk_get_pci_counters_info(int fd, struct hlthunk_pci_counters_info* info) {
  return same_of_every_card("hlthunk_get_pci_counters_info", fd, info, {});
}

// The engines are threads of the process that posted the work, so the card itself is always idle.
bool hlthunk_is_device_idle(int fd) {
  Card* card = nullptr;
  return injected("hlthunk_is_device_idle") == 0 && card_for_information(fd, card) == 0;
}

int hlthunk_get_busy_engines_mask(int fd, struct hlthunk_engines_idle_info* info) {
  return same_of_every_card("hlthunk_get_busy_engines_mask", fd, info,
                            {.is_idle = 1, .pad = 0, .mask = {}});
}

int hlthunk_get_device_utilization(int fd, uint32_t /*period_ms*/, uint32_t* rate) {
  return same_of_every_card("hlthunk_get_device_utilization", fd, rate, std::uint32_t{0});
}

// A card never resets on its own.
int hlthunk_get_reset_count_info(int fd, struct hlthunk_reset_count_info* info) {
  return same_of_every_card("hlthunk_get_reset_count_info", fd, info, {});
}

int hlthunk_get_time_sync_info(int fd, struct hlthunk_time_sync_info* info) {
  return same_of_every_card("hlthunk_get_time_sync_info", fd, info, time_sync());
}

int hlthunk_get_clk_throttle_info(int fd, struct hlthunk_clk_throttle_info* info) {
  return same_of_every_card("hlthunk_get_clk_throttle_info", fd, info, {});
}

int hlthunk_get_dram_replaced_rows_info(int fd, struct hlthunk_dram_replaced_rows_info* info) {
  return same_of_every_card("hlthunk_get_dram_replaced_rows_info", fd, info, {});
}

int hlthunk_get_dram_pending_rows_info(int fd, uint32_t* out) {
  return same_of_every_card("hlthunk_get_dram_pending_rows_info", fd, out, std::uint32_t{0});
}

// The cards have no NICs of their own.
int hlthunk_get_mac_addr_info(int fd, struct hlthunk_mac_addr_info* info) {
  return same_of_every_card("hlthunk_get_mac_addr_info", fd, info, {});
}

int hlthunk_nic_get_ports_masks(int fd, struct hlthunk_nic_get_ports_masks_out* out) {
  return same_of_every_card("hlthunk_nic_get_ports_masks", fd, out, {});
}

int hlthunk_get_info(int fd, struct hl_info_args* info) {
  if (const int error = injected("hlthunk_get_info"); error != 0) return error;
  Card* card = nullptr;
  if (const int error = card_for_information(fd, card); error != 0) return error;
  if (info == nullptr) return -EFAULT;
  switch (info->op) {
    case HL_INFO_HW_IP_INFO:
      return answer(*info, hw_ip_of(*card));
    case HL_INFO_DRAM_USAGE: {
      hl_info_dram_usage usage{};
      const int error = dram_usage_of(*card, is_primary(fd), usage);
      return error != 0 ? error : answer(*info, usage);
    }
    case HL_INFO_HW_IDLE:
      return answer(*info, hl_info_hw_idle{
                               .is_idle = 1, .busy_engines_mask = 0, .busy_engines_mask_ext = {}});
    case HL_INFO_DEVICE_UTILIZATION:
      return answer(*info, hl_info_device_utilization{});
    case HL_INFO_CLK_RATE:
      return answer(*info, hl_info_clk_rate{.cur_clk_rate_mhz = card->kind().clock_mhz,
                                            .max_clk_rate_mhz = card->kind().clock_mhz});
    case HL_INFO_RESET_COUNT:
      return answer(*info, hlthunk_reset_count_info{});
    case HL_INFO_TIME_SYNC:
      return answer(*info, time_sync());
    case HL_INFO_CLK_THROTTLE_REASON:
      return answer(*info, hlthunk_clk_throttle_info{});
    case HL_INFO_DEVICE_STATUS:
      return answer(*info, hl_info_device_status{.status = card->status(), .pad = 0});
    case HL_INFO_OPEN_STATS: {
      hl_open_stats_info stats{};
      const int error = open_stats_of(*card, stats);
      return error != 0 ? error : answer(*info, stats);
    }
    case HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES:
      return answer(*info,
                    hl_info_dev_memalloc_page_sizes{.page_order_bitmask = card->kind().page_sizes});
    default:
      return -EOPNOTSUPP;  // the driver supports these; the emulation does not
  }
}

// Writes that a NIC has completed are in the backing file already. Writes that
// --like-hardware=flush holds back stay posted, because there is no proof that the driver's call
// covers writes of other devices (docs/adr/0005-flush-before-reading.md).
int hlthunk_cs_flush_pci_hbw_writes(int fd) {
  Card* card = nullptr;
  const int error = injected("hlthunk_cs_flush_pci_hbw_writes");
  return error != 0 ? error : card_for_memory(fd, card);
}
