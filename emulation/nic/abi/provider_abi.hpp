// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

// verbs.h wraps these names in macros. The plugin defines functions of these names and never uses
// the macros.
#undef ibv_query_port
#undef ibv_reg_mr

/// The provider interface of libibverbs, as far as all known releases have it in common (layout.hpp
/// has the differences). It is declared anew because libibverbs-dev does not ship the header, which
/// is also C11. The declarations state facts of the binary interface (order, size, offset). Each is
/// proved below as far as a compiler can, and by running the distribution's programs with the
/// plugin. The headers that the plugin is built with may be older or newer than the libibverbs that
/// loads it, so nothing here depends on the size of a structure that grew.
namespace hbmwire::emulation::nic::abi {

struct SysfsDevice;  // a device as libibverbs found it; only passed through
struct Driver;

enum MatchKind : std::uint8_t { kMatchEnd = 0, kMatchModalias = 2 };

/// A pattern in a driver's match table, which ends with a kMatchEnd entry.
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

/// libibverbs' own data around an ibv_device. The plugin only provides zeroed memory for it.
struct Device {
  ibv_device device;
  const Driver* driver;
  int reference_count;
  void* list_next;
  void* list_previous;
  SysfsDevice* sysfs;
  std::uint64_t core_support;
};

/// A bit of core_support: the kernel ignores unknown rights of an MR if they are optional
/// (IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS).
inline constexpr std::uint64_t kOptionalMrAccess = 1;

static_assert(offsetof(Device, driver) == sizeof(ibv_device));
static_assert(sizeof(Device) == sizeof(ibv_device) + 48);

/// verbs_device_ops, by which libibverbs matches and opens devices.
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
  MrType type;  // libibverbs decides by it whether to refuse rereg_mr
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

/// The part of libibverbs' own verbs_qp that follows ibv_qp_ex.
struct VerbsQpEnd {
  std::uint32_t comp_mask;
  void* xrcd;  // only used by libibverbs' own commands, which the plugin does not use
};

/// The size of the shortest known ibv_qp_ex. It ends with functions, and new ones are added last:
/// 20 up to rdma-core 43, 21 in 44 (wr_atomic_write), 22 since 45 (wr_flush).
inline constexpr std::size_t kFirstExtendedQpBytes = 344;

struct QueuePair {
  union {
    // Room for one function more than the latest release has. It is the first member, because `{}`
    // zeroes that.
    std::byte room[kFirstExtendedQpBytes + 3 * sizeof(void*) + sizeof(VerbsQpEnd)];
    ibv_qp qp;
    ibv_qp_ex extended;
  };
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

static_assert(sizeof(ibv_qp) == 160 && offsetof(ibv_qp_ex, qp_base) == 0);
static_assert(offsetof(ibv_qp_ex, wr_complete) == kFirstExtendedQpBytes - 2 * sizeof(void*));
static_assert(sizeof(QueuePair) == 384);

// The inline functions of verbs.h rely on these offsets. verbs_context grows at its front.
static_assert(sizeof(ibv_context) == 328);
static_assert(sizeof(verbs_context) == offsetof(verbs_context, context) + sizeof(ibv_context));
static_assert(offsetof(verbs_context, sz) + sizeof(std::size_t) ==
              offsetof(verbs_context, context));
static_assert(offsetof(ibv_context, cmd_fd) == 264 && offsetof(ibv_context, async_fd) == 268);

}  // namespace hbmwire::emulation::nic::abi
