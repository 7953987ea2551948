// SPDX-License-Identifier: MIT
// Many blocks of equal length in one transfer.
#ifndef HBMWIRE_C_BLOCKS_H
#define HBMWIRE_C_BLOCKS_H

#include "hbmwire/c/endpoint.h"
#include "hbmwire/c/error.h"
#include "hbmwire/c/region.h"
#include "hbmwire/c/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/// This side's memory as blocks of equal length. Numbered from 0 on, through all areas in their
/// order. Immutable, and keeps its regions. Threads: any.
typedef struct hbmwire_block_table hbmwire_block_table;

/// The peer's memory as blocks of equal length. It ends with the connection. Threads: any.
typedef struct hbmwire_remote_block_table hbmwire_remote_block_table;

/// Numbers of blocks. This structure has no struct_size: its members will not change. The array
/// must stay as it is until the transfer is over.
typedef struct hbmwire_block_numbers {
  const void* numbers;   ///< an array of uint32_t or of uint64_t
  size_t count;          ///< how many there are
  uint32_t number_bits;  ///< 32 or 64
  uint32_t reserved;     ///< 0
} hbmwire_block_numbers;

/// Cuts each of `count` areas into blocks of `block_bytes`. Errors: HBMWIRE_INVALID_ARGUMENT (no
/// area, a block of no bytes, an area that leaves its region or is no whole number of blocks).
HBMWIRE_C_API hbmwire_status hbmwire_block_table_create(const hbmwire_slice* areas, size_t count,
                                                        uint64_t block_bytes,
                                                        hbmwire_block_table** table,
                                                        hbmwire_error* error);

/// The number of blocks, and the length of each in bytes; 0 for NULL.
HBMWIRE_C_API uint64_t hbmwire_block_table_size(const hbmwire_block_table* table);
HBMWIRE_C_API uint64_t hbmwire_block_table_block_bytes(const hbmwire_block_table* table);

/// Ends it.
HBMWIRE_C_API void hbmwire_block_table_free(hbmwire_block_table* table);

/// The same for the peer's memory.
HBMWIRE_C_API hbmwire_status hbmwire_remote_block_table_create(const hbmwire_remote_slice* areas,
                                                               size_t count, uint64_t block_bytes,
                                                               hbmwire_remote_block_table** table,
                                                               hbmwire_error* error);
HBMWIRE_C_API uint64_t hbmwire_remote_block_table_size(const hbmwire_remote_block_table* table);
HBMWIRE_C_API uint64_t
hbmwire_remote_block_table_block_bytes(const hbmwire_remote_block_table* table);
HBMWIRE_C_API void hbmwire_remote_block_table_free(hbmwire_remote_block_table* table);

/// Writes block `from_blocks[i]` of `from` to block `to_blocks[i]` of `to`, for each i, as one
/// transfer. The blocks have no order among themselves. Tables and arrays must stay until it is
/// over. Errors: as hbmwire_endpoint_put(), and HBMWIRE_INVALID_ARGUMENT (both ends need as many
/// numbers, blocks of one length, and numbers within the tables).
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_put_blocks(
    hbmwire_endpoint* endpoint, const hbmwire_block_table* from,
    const hbmwire_block_numbers* from_blocks, const hbmwire_remote_block_table* to,
    const hbmwire_block_numbers* to_blocks, const hbmwire_put_options* options,
    hbmwire_transfer** transfer, hbmwire_error* error);

/// The same from the peer. Errors: as hbmwire_endpoint_get() and hbmwire_endpoint_put_blocks().
HBMWIRE_C_API hbmwire_status hbmwire_endpoint_get_blocks(
    hbmwire_endpoint* endpoint, const hbmwire_block_table* into,
    const hbmwire_block_numbers* into_blocks, const hbmwire_remote_block_table* from,
    const hbmwire_block_numbers* from_blocks, hbmwire_transfer** transfer, hbmwire_error* error);

#ifdef __cplusplus
}
#endif

#endif
