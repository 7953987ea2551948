// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// verbs.h wraps these names in macros; the plugin defines functions behind them and never calls the
// macros.
#undef ibv_query_port
#undef ibv_reg_mr

/// The provider interface of libibverbs with private ABI 34 (rdma-core v36 ... v56), declared anew:
/// libibverbs-dev does not ship its header, and that header is C11. What is stated here are facts
/// of the binary interface (order, size, offset), each proved below as far as a compiler can and by
/// running the distribution's programs on the plugin.
namespace hbmwire::emulation::nic::abi {

struct SysfsDevice;  // a device as libibverbs found it; only handed through
struct Driver;

enum MatchKind : std::uint8_t { kMatchEnd = 0, kMatchModalias = 2 };

/// One pattern of a driver's match table; the table ends with a kMatchEnd entry.
struct Match {
  void* driver_data;

  union {
    const char* modalias;
    std::uint64_t driver_id;
  } by;

  std::uint16_t vendor;
  std::uint16_t device;
  std::uint8_t kind;
};

static_assert(sizeof(Match) == 24);

/// libibverbs' own bookkeeping around an ibv_device; the plugin only provides zeroed memory for it.
struct Device {
  ibv_device device;
  const Driver* driver;
  int reference_count;
  void* list_next;
  void* list_previous;
  SysfsDevice* sysfs;
  std::uint64_t core_support;
};

/// A bit of core_support: the kernel overlooks rights of an MR that it does not know, if they are
/// optional (IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS).
inline constexpr std::uint64_t kOptionalMrAccess = 1;

static_assert(offsetof(Device, driver) == sizeof(ibv_device));
static_assert(sizeof(Device) == sizeof(ibv_device) + 48);

struct Driver {
  const char* name;
  std::uint32_t lowest_abi_version;
  std::uint32_t highest_abi_version;
  const Match* match_table;
  const Driver** static_providers;
  bool (*match_device)(SysfsDevice*);
  verbs_context* (*alloc_context)(ibv_device*, int cmd_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device*, int cmd_fd);
  Device* (*alloc_device)(SysfsDevice*);
  void (*uninit_device)(Device*);
};

static_assert(sizeof(Driver) == 72);

enum MrType : std::uint32_t { kMrOfMemory = 0, kMrOfDmabuf = 3 };

struct MemoryRegion {
  ibv_mr mr;
  MrType type;  // libibverbs refuses rereg_mr by it
  int access;
};

static_assert(sizeof(ibv_mr) == 48 && sizeof(MemoryRegion) == 56);

struct CompletionQueue {
  union {
    ibv_cq cq;
    ibv_cq_ex extended;
  };
};

static_assert(sizeof(ibv_cq) == 128 && sizeof(CompletionQueue) == 288);

/// Bit of QueuePair::comp_mask: `extended` is filled in and ibv_qp_to_qp_ex may hand it out.
inline constexpr std::uint32_t kQueuePairIsExtended = 1U << 1U;

struct QueuePair {
  union {
    ibv_qp qp;
    ibv_qp_ex extended;
  };

  std::uint32_t comp_mask;
  void* xrcd;  // libibverbs keeps it there, and never looks inside
};

struct XrcDomain {
  ibv_xrcd xrcd;
  std::uint32_t comp_mask;
  std::uint32_t handle;
};

struct SharedReceiveQueue {
  ibv_srq srq;
  ibv_srq_type type;
  XrcDomain* xrcd;
  ibv_cq* cq;
  std::uint32_t number;
};

static_assert(offsetof(SharedReceiveQueue, type) == sizeof(ibv_srq));
static_assert(sizeof(SharedReceiveQueue) == sizeof(ibv_srq) + 32);

static_assert(sizeof(ibv_qp_ex) == 352 && sizeof(QueuePair) == 368);
static_assert(offsetof(ibv_qp_ex, qp_base) == 0);

// What the inline functions of verbs.h rely on.
static_assert(sizeof(verbs_context) == 648 && sizeof(ibv_context) == 328);
static_assert(offsetof(verbs_context, sz) == 312 && offsetof(verbs_context, context) == 320);
static_assert(offsetof(ibv_context, cmd_fd) == 264 && offsetof(ibv_context, async_fd) == 268);

using Unused = void (*)();

/// Every operation a provider can override, in libibverbs' order (alphabetical). What the plugin
/// never sets is Unused.
struct Operations {
  Unused advise_mr, alloc_dm;
  ibv_mw* (*alloc_mw)(ibv_pd*, ibv_mw_type);
  Unused alloc_null_mr, alloc_parent_domain;
  ibv_pd* (*alloc_pd)(ibv_context*);
  Unused alloc_td;
  void (*async_event)(ibv_context*, ibv_async_event*);
  Unused attach_counters_point_flow;
  int (*attach_mcast)(ibv_qp*, const ibv_gid*, std::uint16_t lid);
  int (*bind_mw)(ibv_qp*, ibv_mw*, ibv_mw_bind*);
  int (*close_xrcd)(ibv_xrcd*);
  void (*cq_event)(ibv_cq*);
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);
  Unused create_counters;
  ibv_cq* (*create_cq)(ibv_context*, int cqe, ibv_comp_channel*, int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*);
  Unused create_flow, create_flow_action_esp;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*);
  Unused create_rwq_ind_table;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  ibv_srq* (*create_srq_ex)(ibv_context*, ibv_srq_init_attr_ex*);
  Unused create_wq;
  int (*dealloc_mw)(ibv_mw*);
  int (*dealloc_pd)(ibv_pd*);
  Unused dealloc_td;
  int (*dereg_mr)(MemoryRegion*);
  int (*destroy_ah)(ibv_ah*);
  Unused destroy_counters;
  int (*destroy_cq)(ibv_cq*);
  Unused destroy_flow, destroy_flow_action;
  int (*destroy_qp)(ibv_qp*);
  Unused destroy_rwq_ind_table;
  int (*destroy_srq)(ibv_srq*);
  Unused destroy_wq;
  int (*detach_mcast)(ibv_qp*, const ibv_gid*, std::uint16_t lid);
  void (*free_context)(ibv_context*);
  Unused free_dm;
  int (*get_srq_num)(ibv_srq*, std::uint32_t* number);
  Unused import_dm, import_mr, import_pd, modify_cq, modify_flow_action_esp;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask);
  Unused modify_qp_rate_limit;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int mask);
  Unused modify_wq;
  ibv_qp* (*open_qp)(ibv_context*, ibv_qp_open_attr*);
  ibv_xrcd* (*open_xrcd)(ibv_context*, ibv_xrcd_init_attr*);
  int (*poll_cq)(ibv_cq*, int count, ibv_wc*);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
  Unused post_srq_ops;
  int (*post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*query_device_ex)(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*,
                         std::size_t);
  Unused query_ece;
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
  Unused query_qp_data_in_order;
  int (*query_rt_values)(ibv_context*, ibv_values_ex*);
  int (*query_srq)(ibv_srq*, ibv_srq_attr*);
  Unused read_counters, reg_dm_mr;
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd*, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                           int fd, int access);
  ibv_mr* (*reg_mr)(ibv_pd*, void* address, std::size_t length, std::uint64_t iova, int access);
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*rereg_mr)(MemoryRegion*, int flags, ibv_pd*, void* address, std::size_t length, int access);
  int (*resize_cq)(ibv_cq*, int cqe);
  Unused set_ece, unimport_dm, unimport_mr, unimport_pd;
};

static_assert(sizeof(Operations) == 76 * sizeof(void*));

extern "C" {
void verbs_register_driver_34(const Driver*);
void* _verbs_init_and_alloc_context(ibv_device*, int cmd_fd, std::size_t size,
                                    verbs_context* offset_in_it, std::uint32_t driver_id);
void verbs_uninit_context(verbs_context*);
void verbs_set_ops(verbs_context*, const Operations*);
}

}  // namespace hbmwire::emulation::nic::abi
