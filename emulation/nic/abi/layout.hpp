// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// The private interface between libibverbs and its providers differs between releases of
/// rdma-core. Its number N is part of a provider's file name (-rdmavN.so) and of the version of the
/// private symbols (IBVERBS_PRIVATE_N). But N does not change with every change of the interface.
/// Source: libibverbs/driver.h and libibverbs/verbs.h of rdma-core, at its tags v39.0 to v64.0 and
/// at 65.0.
namespace hbmwire::emulation::nic::abi {

/// Every operation that a provider can override, in the alphabetical order of libibverbs' table. A
/// new operation is inserted in that order, so the indices of others change between releases.
enum class Operation : std::uint8_t {
  advise_mr,
  alloc_buf,
  alloc_dm,
  alloc_dmah,
  alloc_mw,
  alloc_null_mr,
  alloc_parent_domain,
  alloc_pd,
  alloc_td,
  async_event,
  attach_counters_point_flow,
  attach_mcast,
  bind_mw,
  close_xrcd,
  cq_event,
  create_ah,
  create_comp_cntr,
  create_counters,
  create_cq,
  create_cq_ex,
  create_flow,
  create_flow_action_esp,
  create_qp,
  create_qp_ex,
  create_rwq_ind_table,
  create_srq,
  create_srq_ex,
  create_wq,
  dealloc_dmah,
  dealloc_mw,
  dealloc_pd,
  dealloc_td,
  dereg_mr,
  destroy_ah,
  destroy_comp_cntr,
  destroy_counters,
  destroy_cq,
  destroy_flow,
  destroy_flow_action,
  destroy_qp,
  destroy_rwq_ind_table,
  destroy_srq,
  destroy_wq,
  detach_mcast,
  dm_export_dmabuf_fd,
  free_buf,
  free_context,
  free_dm,
  get_srq_num,
  import_dm,
  import_mr,
  import_pd,
  inc_comp_cntr,
  inc_err_comp_cntr,
  modify_cq,
  modify_flow_action_esp,
  modify_qp,
  modify_qp_rate_limit,
  modify_srq,
  modify_wq,
  open_qp,
  open_xrcd,
  poll_cq,
  post_recv,
  post_send,
  post_srq_ops,
  post_srq_recv,
  qp_attach_comp_cntr,
  query_comp_cntr_caps,
  query_device_ex,
  query_ece,
  query_port,
  query_port_speed,
  query_qp,
  query_qp_data_in_order,
  query_rt_values,
  query_srq,
  read_comp_cntr,
  read_counters,
  read_err_comp_cntr,
  reg_dm_mr,
  reg_dmabuf_mr,
  reg_mr,
  reg_mr_ex,
  req_notify_cq,
  rereg_mr,
  resize_cq,
  set_comp_cntr,
  set_ece,
  set_err_comp_cntr,
  unimport_dm,
  unimport_mr,
  unimport_pd,
};

inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::unimport_pd) + 1;

/// The layout that a range of releases has in common.
struct Layout {
  unsigned abi;            // the interface number N
  unsigned first_release;  // of rdma-core
  unsigned last_release;
  std::size_t context_words;  // size of verbs_context in front of its ibv_context, in words; it
                              // grows at the front
};

inline constexpr std::array kLayouts = {Layout{34, 39, 56, 40}, Layout{57, 57, 58, 40},
                                        Layout{59, 59, 61, 43}, Layout{59, 62, 63, 44},
                                        Layout{64, 64, 64, 46}, Layout{65, 65, 65, 46}};

inline constexpr std::size_t kMostContextWords = kLayouts.back().context_words;

/// An entry of the table of operations; the function's real type is lost.
using Entry = void (*)();

/// The plugin's function for an operation.
struct Implementation {
  Operation operation;
  Entry function;
};

/// The number of entries in the layout's table of operations.
std::size_t count_operations(const Layout& layout);

/// Makes the table of operations for a libibverbs of this layout. Operations without an
/// implementation are null; libibverbs then keeps its own functions, which answer EOPNOTSUPP.
/// Implementations that the layout has no entry for are left out.
std::vector<Entry> lay_out(const Layout& layout, std::span<const Implementation> implementations);

/// Finds the layout of a loaded libibverbs by its symbols. Returns null if it is not known.
const Layout* find_layout(void* library);

/// The releases that the plugin knows, as "rdma-core 39 to 65".
std::string known_releases();

/// The version of rdma-core, taken from the name of the library's file: "44.0" for
/// libibverbs.so.1.14.44.0. Returns the whole path if the name has another form.
std::string release_of(void* library);

}  // namespace hbmwire::emulation::nic::abi
