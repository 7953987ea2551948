// SPDX-License-Identifier: MIT
// Bytes by which a peer reaches memory.
#ifndef HBMWIRE_C_MEMORY_KEY_H
#define HBMWIRE_C_MEMORY_KEY_H

#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A key to a region, as its exporter has it: bytes by which a peer reaches the memory, by any of
/// its NICs (docs/memory-keys.md). Freeing the key revokes its own registrations. Threads: any.
typedef struct hbmwire_memory_key hbmwire_memory_key;

/// A key to memory of a peer, as the peer has it. Threads: any.
typedef struct hbmwire_remote_key hbmwire_remote_key;

/// Where a process of the same node gets the dma-buf of memory (docs/attach.md). This structure has
/// no struct_size: its members will not change.
typedef struct hbmwire_attach_address {
  char socket[104];    ///< name of an abstract socket, unix(7), with its NUL
  uint8_t secret[16];  ///< random; a process that knows it may attach
} hbmwire_attach_address;

/// The range, the rights and the lifetime of a new key.
typedef struct hbmwire_memory_key_options {
  size_t struct_size;                    ///< set by hbmwire_memory_key_options_init()
  const hbmwire_attach_address* attach;  ///< for processes of the same node; NULL: none
  uint64_t offset_bytes;                 ///< from the region's address on
  uint64_t length_bytes;                 ///< UINT64_MAX: all bytes behind the offset
  int64_t expires_after_ns;              ///< from now on; HBMWIRE_FOREVER: never
  int32_t access;                        ///< of hbmwire_access; HBMWIRE_UNSET: as the region
  int32_t revocable;                     ///< 1: hbmwire_memory_key_revoke() will be called
} hbmwire_memory_key_options;

/// Sets the defaults.
HBMWIRE_C_API void hbmwire_memory_key_options_init(hbmwire_memory_key_options* options,
                                                   size_t struct_size);

/// The contents of a key.
typedef struct hbmwire_memory_key_info {
  size_t struct_size;             ///< set by hbmwire_memory_key_info_init()
  uint64_t address;               ///< of its first byte, in the exporting process
  uint64_t length_bytes;          ///< at least 1
  uint64_t incarnation;           ///< of the exporting process
  int64_t expires_unix_ns;        ///< by the exporter's clock; HBMWIRE_FOREVER: never
  size_t nic_count;               ///< NICs of the exporter that reach the memory; 0: none
  hbmwire_memory_type type;       ///< of the memory
  hbmwire_access access;          ///< remote rights
  hbmwire_path path;              ///< the path by which the exporter's NICs reach it
  int32_t has_attach;             ///< 1: `attach` is an address
  hbmwire_attach_address attach;  ///< for processes of the exporter's node
} hbmwire_memory_key_info;

/// Makes it empty.
HBMWIRE_C_API void hbmwire_memory_key_info_init(hbmwire_memory_key_info* info, size_t struct_size);

/// Makes a key. Errors, of HBMWIRE_STAGE_REGISTER_MEMORY: HBMWIRE_INVALID_ARGUMENT (range, access,
/// expiry or attach address), or as hbmwire_context_register_allocation().
HBMWIRE_C_API hbmwire_status hbmwire_memory_key_pack(const hbmwire_region* region,
                                                     const hbmwire_memory_key_options* options,
                                                     hbmwire_memory_key** key,
                                                     hbmwire_error* error);

/// The bytes to send to the peer, by any means. Every reader of these bytes has the key. They
/// belong to the key; NULL and a size of 0 for NULL.
HBMWIRE_C_API const void* hbmwire_memory_key_bytes(const hbmwire_memory_key* key, size_t* size);

/// Gives the contents of a key.
HBMWIRE_C_API hbmwire_status hbmwire_memory_key_get_info(const hbmwire_memory_key* key,
                                                         hbmwire_memory_key_info* info,
                                                         hbmwire_error* error);

/// Whether hbmwire_memory_key_revoke() can take it back; false for NULL.
HBMWIRE_C_API bool hbmwire_memory_key_revocable(const hbmwire_memory_key* key);

/// False if the key was revoked or has expired, and for NULL.
HBMWIRE_C_API bool hbmwire_memory_key_valid(const hbmwire_memory_key* key);

/// Takes the key back: when this returns, no NIC accepts it any more, and no byte moves by it.
/// Errors: HBMWIRE_NOT_SUPPORTED (not revocable); HBMWIRE_TIMED_OUT, a process of this node is
/// stopped in the middle of a copy: the key has ended, and a further call waits again;
/// HBMWIRE_STAGE_REGISTER_MEMORY otherwise: the key may still be valid, call again.
HBMWIRE_C_API hbmwire_status hbmwire_memory_key_revoke(hbmwire_memory_key* key,
                                                       hbmwire_error* error);

/// Revokes the key's own registrations, and ends it.
HBMWIRE_C_API void hbmwire_memory_key_free(hbmwire_memory_key* key);

/// Reads the bytes of a key, which may come from anywhere. Errors: HBMWIRE_PROTOCOL.
HBMWIRE_C_API hbmwire_status hbmwire_remote_key_unpack(const void* bytes, size_t size,
                                                       hbmwire_remote_key** key,
                                                       hbmwire_error* error);

/// Gives the contents of a key.
HBMWIRE_C_API hbmwire_status hbmwire_remote_key_get_info(const hbmwire_remote_key* key,
                                                         hbmwire_memory_key_info* info,
                                                         hbmwire_error* error);

/// One NIC's access to the memory: the 16 bytes of its port's GID, and the key by which the NIC
/// knows the memory. Errors: HBMWIRE_INVALID_ARGUMENT, no such index.
HBMWIRE_C_API hbmwire_status hbmwire_remote_key_nic(const hbmwire_remote_key* key, size_t index,
                                                    uint8_t* gid, uint32_t* remote_key,
                                                    hbmwire_error* error);

/// Ends it.
HBMWIRE_C_API void hbmwire_remote_key_free(hbmwire_remote_key* key);

#ifdef __cplusplus
}
#endif

#endif
