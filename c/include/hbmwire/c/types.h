// SPDX-License-Identifier: MIT
// Numbers that several parts of the library share.
#ifndef HBMWIRE_C_TYPES_H
#define HBMWIRE_C_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Marks functions that libhbmwire_c.so exports.
#define HBMWIRE_C_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/// Special values of waits and options.
enum {
  HBMWIRE_FOREVER = -1,  ///< a `timeout_ns` that never ends
  HBMWIRE_NO_FD = -1,    ///< a `cancel_fd` that is none
  HBMWIRE_UNSET = -1,    ///< an option that is left open
};

/// The types of memory that the library knows: HBMWIRE_MEMORY_HOST and so on.
typedef int32_t hbmwire_memory_type;

enum {
  HBMWIRE_MEMORY_HOST = 0,    ///< memory that the CPU reads and writes
  HBMWIRE_MEMORY_GAUDI = 1,   ///< HBM of an Intel Gaudi card
  HBMWIRE_MEMORY_CUDA = 2,    ///< an NVIDIA GPU's memory
  HBMWIRE_MEMORY_ROCM = 3,    ///< an AMD GPU's memory
  HBMWIRE_MEMORY_DMABUF = 4,  ///< memory behind a dma-buf that the application brought
};

/// The way that bytes take: how a NIC reaches memory, and how a transfer went (docs/paths.md).
typedef int32_t hbmwire_path;

enum {
  HBMWIRE_PATH_HOST = 0,           ///< host memory, registered by address
  HBMWIRE_PATH_ZERO_COPY = 1,      ///< device memory through its dma-buf
  HBMWIRE_PATH_PEER_MEMORY = 2,    ///< device memory, registered by address
  HBMWIRE_PATH_NIC_LOOPBACK = 3,   ///< zero copy between two ends of one node
  HBMWIRE_PATH_STAGED = 4,         ///< through host memory
  HBMWIRE_PATH_COPY = 5,           ///< by a device's engine, within a process
  HBMWIRE_PATH_TCP = 6,            ///< over a TCP connection, through host memory
  HBMWIRE_PATH_IPC = 7,            ///< by an engine, between two processes of a node
  HBMWIRE_PATH_SHARED_MEMORY = 8,  ///< host memory of two processes of a node, by the CPU
};

/// The rights of NICs at memory: a sum of HBMWIRE_ACCESS_LOCAL_WRITE and so on.
typedef uint32_t hbmwire_access;

enum {
  HBMWIRE_ACCESS_NONE = 0,           ///< reading by this end's own operations
  HBMWIRE_ACCESS_LOCAL_WRITE = 1,    ///< writing by this end's own operations: receives and gets
  HBMWIRE_ACCESS_REMOTE_WRITE = 2,   ///< puts of a peer
  HBMWIRE_ACCESS_REMOTE_READ = 4,    ///< gets of a peer
  HBMWIRE_ACCESS_REMOTE_ATOMIC = 8,  ///< fetch-add and compare-swap of a peer
};

/// How far a transfer must be to be complete.
typedef int32_t hbmwire_level;

enum {
  HBMWIRE_LEVEL_SENT = 0,     ///< the source may be written again
  HBMWIRE_LEVEL_ARRIVED = 1,  ///< the target's NIC has all of it
  HBMWIRE_LEVEL_VISIBLE =
      2,  ///< the target device's own engines see it, too; a put needs HBMWIRE_ACCESS_REMOTE_READ
};

/// The protocol by which a transfer went.
typedef int32_t hbmwire_protocol;

enum {
  HBMWIRE_PROTOCOL_DIRECT = 0,            ///< one-sided: the NIC moves between the two regions
  HBMWIRE_PROTOCOL_INLINED = 1,           ///< the request itself held the bytes
  HBMWIRE_PROTOCOL_EAGER = 2,             ///< sent at once; the receiver copied the bytes
  HBMWIRE_PROTOCOL_RENDEZVOUS_READ = 3,   ///< the receiver's NIC read the bytes
  HBMWIRE_PROTOCOL_RENDEZVOUS_WRITE = 4,  ///< the sender's NIC wrote the bytes
  HBMWIRE_PROTOCOL_PROXIED = 5,           ///< the peer's process moved the bytes
};

/// Where the two ends of a connection are.
typedef int32_t hbmwire_placement;

enum {
  HBMWIRE_PLACEMENT_SAME_PROCESS = 0,  ///< both are endpoints of one process
  HBMWIRE_PLACEMENT_SAME_NODE = 1,     ///< two processes of one machine
  HBMWIRE_PLACEMENT_TWO_NODES = 2,     ///< two machines, or unknown
};

/// The words that users see: "gaudi", "zero-copy dma-buf", "visible", "rendezvous read", "same
/// node" and so on; empty for a number that has none. Valid as long as the library is loaded.
HBMWIRE_C_API const char* hbmwire_memory_type_name(hbmwire_memory_type type);
HBMWIRE_C_API const char* hbmwire_path_name(hbmwire_path path);
HBMWIRE_C_API const char* hbmwire_level_name(hbmwire_level level);
HBMWIRE_C_API const char* hbmwire_protocol_name(hbmwire_protocol protocol);
HBMWIRE_C_API const char* hbmwire_placement_name(hbmwire_placement placement);

#ifdef __cplusplus
}
#endif

#endif
