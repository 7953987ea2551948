// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "emulation/nic/state/ports.hpp"
#include "emulation/nic/verbs/objects.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Converts a rate like "100 Gb/sec (4X EDR)" to the codes of ibv_port_attr. An unknown rate
/// becomes 4X EDR.
void decode_rate(const std::string& rate, ibv_port_attr& port) {
  struct Code {
    std::string_view text;
    std::uint8_t value;
  };

  static constexpr Code kWidths[] = {{"1X", 1}, {"4X", 2}, {"8X", 4}, {"12X", 8}, {"2X", 16}};
  static constexpr Code kSpeeds[] = {{"SDR", 1},  {"DDR", 2},  {"QDR", 4},  {"FDR10", 8},
                                     {"FDR", 16}, {"EDR", 32}, {"HDR", 64}, {"NDR", 128}};
  port.active_width = 2;
  port.active_speed = 32;
  for (const Code& width : kWidths) {
    if (rate.find("(" + std::string(width.text)) != std::string::npos)
      port.active_width = width.value;
  }
  for (const Code& speed : kSpeeds) {
    if (rate.find(" " + std::string(speed.text) + ")") != std::string::npos)
      port.active_speed = speed.value;
  }
}

static_assert(NicLimits{}.qp == kMaxQps - kFirstQp - 1);

void fill_limits(ibv_device_attr& limits, const NicLimits& own) {
  limits.max_mr_size = ~0ULL;
  limits.page_size_cap = ~(kPageBytes - 1);
  limits.max_qp = static_cast<int>(own.qp);
  limits.max_qp_wr = kMaxWr;
  limits.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_CURR_QP_STATE_MOD |
                            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                            IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
  limits.max_sge = kMaxSge;
  limits.max_sge_rd = kMaxSge;
  limits.max_cq = static_cast<int>(own.cq);
  limits.max_cqe = static_cast<int>(own.cqe);
  limits.max_srq = static_cast<int>(own.srq);
  limits.max_srq_wr = kMaxWr;
  limits.max_srq_sge = kMaxSge;
  limits.max_mr = static_cast<int>(own.mr);
  limits.max_mw = kMaxMws - 1;
  limits.max_pd = kMaxPds;
  limits.max_qp_rd_atom = kMaxReadAtomic;
  limits.max_qp_init_rd_atom = kMaxReadAtomic;
  limits.max_res_rd_atom = kMaxReadAtomic * static_cast<int>(kMaxQps);
  limits.atomic_cap = IBV_ATOMIC_HCA;
  limits.max_pkeys = 1;
  limits.max_ah = kMaxAhs;
  limits.max_mcast_grp = static_cast<int>(kMaxMulticastAttachments);
  limits.max_mcast_qp_attach = static_cast<int>(kMaxMulticastAttachments);
  limits.max_total_mcast_qp_attach = static_cast<int>(kMaxMulticastAttachments);
  limits.local_ca_ack_delay = 15;  // 4.096 us * 2^15, about 134 ms
}

}  // namespace

int query_device(ibv_context* context, const ibv_query_device_ex_input* input,
                 ibv_device_attr_ex* attributes, std::size_t size) {
  const ContextState& state = state_of(context);
  if (const int error = planned_failure(state.process, "ibv_query_device"); error != 0)
    return error;
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (size < sizeof attributes->orig_attr) return EOPNOTSUPP;
  ibv_device_attr_ex all;
  std::memset(&all, 0, sizeof all);
  ibv_device_attr& device = all.orig_attr;
  std::string firmware = state.device.firmware;
  if (firmware.find("emulated") == std::string::npos) firmware += " emulated";
  firmware.copy(device.fw_ver, sizeof device.fw_ver - 1);
  device.node_guid = state.device.guid;
  device.sys_image_guid = state.device.guid;
  device.vendor_id = state.device.vendor_id;
  device.vendor_part_id = state.device.part_id;
  device.hw_ver = state.device.revision;
  fill_limits(device, state.device.behaviour.limits);
  if (!state.device.behaviour.atomics) device.atomic_cap = IBV_ATOMIC_NONE;
  device.phys_port_cnt = static_cast<std::uint8_t>(state.device.ports.size());
  all.completion_timestamp_mask = ~0ULL;  // in ns
  all.hca_core_clock = 1'000'000;         // in kHz
  all.device_cap_flags_ex = device.device_cap_flags;
  all.phys_port_cnt_ex = device.phys_port_cnt;
  std::memcpy(attributes, &all, std::min(size, sizeof all));
  return 0;
}

/// man ibv_query_rt_values_ex: the clock of completion timestamps. All its ns are in tv_nsec, as
/// mlx5 stores its cycles there.
int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  const ContextState& state = state_of(context);
  if (const int error = planned_failure(state.process, "ibv_query_rt_values_ex"); error != 0)
    return error;
  const bool asked = (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0;
  values->comp_mask = asked ? IBV_VALUES_MASK_RAW_CLOCK : 0;
  if (asked) values->raw_clock = {0, static_cast<long>(now_ns())};
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  const ContextState& state = state_of(context);
  if (const int error = planned_failure(state.process, "ibv_query_port"); error != 0) return error;
  const PortInfo* info = state.device.port(port);
  if (info == nullptr) return EINVAL;
  const std::filesystem::path directory = state.device.directory / "ports" / std::to_string(port);
  ibv_port_attr result;
  std::memset(&result, 0, sizeof result);
  constexpr std::uint8_t kDisabled = 3;  // PortPhysicalState, IBTA vol. 1, PortInfo
  constexpr std::uint8_t kLinkUp = 5;
  raise_due_links(state.process.links(), now_ns());
  const bool up = link_is_up(state.process.shared(), info->fabric_port);
  result.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  result.phys_state = up ? kLinkUp : kDisabled;
  result.max_mtu = IBV_MTU_4096;
  result.active_mtu = IBV_MTU_4096;
  result.gid_tbl_len = kGidTableLength;
  result.port_cap_flags = IBV_PORT_CM_SUP;
  result.max_msg_sz = static_cast<std::uint32_t>(kMaxMessageBytes);
  result.pkey_tbl_len = 1;
  result.max_vl_num = 1;
  if (info->is_infiniband()) {
    constexpr std::uint8_t kSubnetTimeout = 18;  // 4.096 us * 2^18, as opensm sets it
    result.link_layer = IBV_LINK_LAYER_INFINIBAND;
    result.lid = info->lid;
    result.sm_lid = info->subnet_manager_lid;
    result.subnet_timeout = kSubnetTimeout;
  } else {
    result.link_layer = IBV_LINK_LAYER_ETHERNET;
    result.port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
  }
  decode_rate(sysfs_line(directory / "rate"), result);
  // active_speed_ex came later: a libibverbs that is older than the headers has no room for it.
  constexpr std::size_t kOldestBytes =
      offsetof(ibv_port_attr, port_cap_flags2) + sizeof result.port_cap_flags2;
  std::memcpy(attributes, &result, kOldestBytes);
  return 0;
}

}  // namespace hbmwire::emulation::nic
