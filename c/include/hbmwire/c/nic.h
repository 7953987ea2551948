// SPDX-License-Identifier: MIT
// The RDMA devices of this machine.
#ifndef HBMWIRE_C_NIC_H
#define HBMWIRE_C_NIC_H

#include "hbmwire/c/context.h"
#include "hbmwire/c/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The RDMA devices of this machine, as they were at the time of the call. It owns the strings that
/// its functions give. Threads: any.
typedef struct hbmwire_nics hbmwire_nics;

/// NICs in the order of their distance from a device. It owns the strings that its functions give.
typedef struct hbmwire_near_nics hbmwire_near_nics;

/// An RDMA device of this machine.
typedef struct hbmwire_nic_device {
  size_t struct_size;       ///< set by hbmwire_nic_device_init()
  const char* name;         ///< "mlx5_0"
  const char* pci_address;  ///< empty if sysfs does not tell
  const char* firmware;     ///< version, as the device tells it
  size_t port_count;        ///< how many ports it has
  int32_t numa_node;        ///< -1: unknown
  int32_t scale_up;         ///< 1: a Gaudi's own NIC, which carries no dma-bufs
  int32_t imports_dmabufs;  ///< 1: its driver can; 0: it can't; HBMWIRE_UNSET: unknown
  uint32_t max_qp;          ///< queue pairs that it has for all processes together; 0: not told
  uint32_t max_cq;          ///< completion queues, likewise
  uint32_t max_cqe;         ///< entries of a completion queue
  uint32_t max_mr;          ///< memory regions, likewise
  uint32_t max_srq;         ///< shared receive queues, likewise
  uint32_t max_peers;       ///< for how many peers it has queue pairs, if one worker has all of
                            ///< them
  uint32_t reserved;        ///< 0
} hbmwire_nic_device;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_nic_device_init(hbmwire_nic_device* device, size_t struct_size);

/// A device's port, as it is chosen when the device is opened.
typedef struct hbmwire_nic_info {
  size_t struct_size;       ///< set by hbmwire_nic_info_init()
  const char* name;         ///< of the device: "mlx5_0"
  const char* pci_address;  ///< empty if sysfs does not tell
  const char* firmware;     ///< version, as the device tells it
  const char* gid;          ///< text form
  const char* gid_type;     ///< "RoCE v2", "IB", ...
  const char* state;        ///< "active", "down", ...; empty: unknown, or the port of a NIC in use
  uint64_t max_message_bytes;     ///< the longest message of the port
  uint64_t rate_bits_per_second;  ///< of the link; 0: unknown, or the port of a NIC in use
  size_t gid_count;               ///< entries of hbmwire_nics_gid(); 0 for the port of a NIC in use
  uint32_t mtu_bytes;             ///< active MTU of the port
  int32_t port;                   ///< its number
  int32_t gid_index;              ///< entry of the GID table
  int32_t ethernet;               ///< 1: RoCE; 0: InfiniBand
} hbmwire_nic_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_nic_info_init(hbmwire_nic_info* info, size_t struct_size);

/// One entry of a port's GID table.
typedef struct hbmwire_gid {
  size_t struct_size;          ///< set by hbmwire_gid_init()
  const char* gid;             ///< text form
  const char* type;            ///< "RoCE v2", "RoCE v1", "IB"
  const char* interface_name;  ///< the network interface that has this address; may be empty
  int32_t index;               ///< in the table
  int32_t reserved;            ///< 0
} hbmwire_gid;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_gid_init(hbmwire_gid* gid, size_t struct_size);

/// Every RDMA device of this machine with its ports, as they are now. Opens each for a moment.
/// Errors: HBMWIRE_STAGE_PROBE, there is none.
HBMWIRE_C_API hbmwire_status hbmwire_context_nics(const hbmwire_context* context,
                                                  hbmwire_nics** nics, hbmwire_error* error);

/// How many there are.
HBMWIRE_C_API size_t hbmwire_nics_count(const hbmwire_nics* nics);

/// The device at `index`. `refusal`, which may be NULL, tells why it can't be opened, or is
/// HBMWIRE_OK. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_nics_get(const hbmwire_nics* nics, size_t index,
                                              hbmwire_nic_device* device, hbmwire_error* refusal,
                                              hbmwire_error* error);

/// A port of the device at `index`. `refusal`, which may be NULL, tells why the library would not
/// take it, or is HBMWIRE_OK. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_nics_port(const hbmwire_nics* nics, size_t index,
                                               size_t port_index, hbmwire_nic_info* port,
                                               hbmwire_error* refusal, hbmwire_error* error);

/// An entry of a port's GID table; empty entries are not counted. Errors: HBMWIRE_INVALID_ARGUMENT,
/// no such index.
HBMWIRE_C_API hbmwire_status hbmwire_nics_gid(const hbmwire_nics* nics, size_t index,
                                              size_t port_index, size_t gid_index, hbmwire_gid* gid,
                                              hbmwire_error* error);

/// Ends the list.
HBMWIRE_C_API void hbmwire_nics_free(hbmwire_nics* nics);

/// How far two PCI devices are from each other, by what lies between them; nearest first.
typedef int32_t hbmwire_distance;

enum {
  HBMWIRE_DISTANCE_SAME_SWITCH = 0,       ///< PIX: PCIe switches at most
  HBMWIRE_DISTANCE_SAME_HOST_BRIDGE = 1,  ///< PHB: a host bridge of the CPU
  HBMWIRE_DISTANCE_SAME_NUMA_NODE = 2,    ///< NODE: two host bridges near one NUMA node
  HBMWIRE_DISTANCE_ACROSS = 3,            ///< SYS: the interconnect between NUMA nodes
  HBMWIRE_DISTANCE_UNKNOWN = 4,           ///< hwloc does not see one of them
};

/// "PIX", "PHB", "NODE", "SYS", "unknown"; empty for a number that is no distance.
HBMWIRE_C_API const char* hbmwire_distance_name(hbmwire_distance distance);

/// An RDMA device as seen from another device.
typedef struct hbmwire_near_nic {
  size_t struct_size;         ///< set by hbmwire_near_nic_init()
  const char* name;           ///< "mlx5_0"
  const char* pci_address;    ///< empty: a software NIC
  int32_t numa_node;          ///< -1: unknown
  hbmwire_distance distance;  ///< from the device that was asked about
} hbmwire_near_nic;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_near_nic_init(hbmwire_near_nic* nic, size_t struct_size);

/// The devices of `nics` that can carry the memory of the device at `pci_address`, nearest first. A
/// Gaudi's own scale-up NICs are left out. Errors: HBMWIRE_EXHAUSTED.
HBMWIRE_C_API hbmwire_status hbmwire_context_nics_near(const hbmwire_context* context,
                                                       const char* pci_address,
                                                       const hbmwire_nics* nics,
                                                       hbmwire_near_nics** near,
                                                       hbmwire_error* error);

/// How many there are.
HBMWIRE_C_API size_t hbmwire_near_nics_count(const hbmwire_near_nics* nics);

/// The one at `index`. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_near_nics_get(const hbmwire_near_nics* nics, size_t index,
                                                   hbmwire_near_nic* nic, hbmwire_error* error);

/// Ends the list.
HBMWIRE_C_API void hbmwire_near_nics_free(hbmwire_near_nics* nics);

/// The NUMA node near a PCI device; -1: unknown.
HBMWIRE_C_API int32_t hbmwire_context_numa_node(const hbmwire_context* context,
                                                const char* pci_address);

/// A PCIe link as it is trained now, in one direction.
typedef struct hbmwire_pci_link {
  size_t struct_size;               ///< set by hbmwire_pci_link_init()
  double gigatransfers_per_second;  ///< of a lane: 2.5, 5, 8, 16, 32, 64
  double bytes_per_second;          ///< its speed after line encoding
  uint32_t lanes;                   ///< how many it has
  char at[28];                      ///< PCI address of the device or bridge at its lower end
} hbmwire_pci_link;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_pci_link_init(hbmwire_pci_link* link, size_t struct_size);

/// The narrowest PCIe link on the way from a device towards another one. If `towards` is NULL, up
/// to the root complex. Errors: HBMWIRE_NOT_FOUND, sysfs tells of none (a software NIC, a virtual
/// machine).
HBMWIRE_C_API hbmwire_status hbmwire_context_pci_link(const hbmwire_context* context,
                                                      const char* pci_address, const char* towards,
                                                      hbmwire_pci_link* link, hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
