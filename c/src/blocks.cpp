// SPDX-License-Identifier: MIT
#include "hbmwire/blocks.hpp"

#include "handles.hpp"

using namespace hbmwire;

namespace {

/// The caller's areas. Errors: NULL, or an area of no region.
template <class Area, class Given>
Result<std::vector<Area>> areas_of(const Given* areas, std::size_t count) {
  if (count != 0) HBMWIRE_TRY(c::need({{areas, "areas"}}));
  std::vector<Area> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    HBMWIRE_TRY_ASSIGN(const Area area, c::slice_of(&areas[i]));
    all.push_back(area);
  }
  return all;
}

Result<BlockNumbers> numbers_of(const hbmwire_block_numbers* numbers) {
  HBMWIRE_TRY(c::need({{numbers, "numbers of blocks"}}));
  if (numbers->count != 0) HBMWIRE_TRY(c::need({{numbers->numbers, "numbers of blocks"}}));
  if (numbers->number_bits != 32 && numbers->number_bits != 64)
    return c::refuse("numbers of blocks have 32 or 64 bits");
  BlockNumbers made;
  made.first = numbers->numbers;
  made.size = numbers->count;
  made.wide = numbers->number_bits == 64;
  return made;
}

}  // namespace

hbmwire_status hbmwire_block_table_create(const hbmwire_slice* areas, size_t count,
                                          uint64_t block_bytes, hbmwire_block_table** table,
                                          hbmwire_error* error) {
  return c::create(table, error, {}, [&]() -> Result<BlockTable> {
    HBMWIRE_TRY_ASSIGN(const auto all, areas_of<Slice>(areas, count));
    return BlockTable::create(all, block_bytes);
  });
}

uint64_t hbmwire_block_table_size(const hbmwire_block_table* table) {
  return table == nullptr ? 0 : table->value->size();
}

uint64_t hbmwire_block_table_block_bytes(const hbmwire_block_table* table) {
  return table == nullptr ? 0 : table->value->block_bytes();
}

void hbmwire_block_table_free(hbmwire_block_table* table) { delete table; }

hbmwire_status hbmwire_remote_block_table_create(const hbmwire_remote_slice* areas, size_t count,
                                                 uint64_t block_bytes,
                                                 hbmwire_remote_block_table** table,
                                                 hbmwire_error* error) {
  return c::create(table, error, {}, [&]() -> Result<RemoteBlockTable> {
    HBMWIRE_TRY_ASSIGN(const auto all, areas_of<RemoteSlice>(areas, count));
    return RemoteBlockTable::create(all, block_bytes);
  });
}

uint64_t hbmwire_remote_block_table_size(const hbmwire_remote_block_table* table) {
  return table == nullptr ? 0 : table->value->size();
}

uint64_t hbmwire_remote_block_table_block_bytes(const hbmwire_remote_block_table* table) {
  return table == nullptr ? 0 : table->value->block_bytes();
}

void hbmwire_remote_block_table_free(hbmwire_remote_block_table* table) { delete table; }

hbmwire_status hbmwire_endpoint_put_blocks(hbmwire_endpoint* endpoint,
                                           const hbmwire_block_table* from,
                                           const hbmwire_block_numbers* from_blocks,
                                           const hbmwire_remote_block_table* to,
                                           const hbmwire_block_numbers* to_blocks,
                                           const hbmwire_put_options* options,
                                           hbmwire_transfer** transfer, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {endpoint, "endpoint"}, {from, "from"}, {to, "to"}};
  return c::create(transfer, error, needed, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const BlockNumbers here, numbers_of(from_blocks));
    HBMWIRE_TRY_ASSIGN(const BlockNumbers there, numbers_of(to_blocks));
    HBMWIRE_TRY_ASSIGN(const PutOptions wanted, c::put_options_of(options));
    return endpoint->value->put_blocks(*from->value, here, *to->value, there, wanted);
  });
}

hbmwire_status hbmwire_endpoint_get_blocks(hbmwire_endpoint* endpoint,
                                           const hbmwire_block_table* into,
                                           const hbmwire_block_numbers* into_blocks,
                                           const hbmwire_remote_block_table* from,
                                           const hbmwire_block_numbers* from_blocks,
                                           hbmwire_transfer** transfer, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{
      {endpoint, "endpoint"}, {into, "into"}, {from, "from"}};
  return c::create(transfer, error, needed, [&]() -> Result<Transfer> {
    HBMWIRE_TRY_ASSIGN(const BlockNumbers here, numbers_of(into_blocks));
    HBMWIRE_TRY_ASSIGN(const BlockNumbers there, numbers_of(from_blocks));
    return endpoint->value->get_blocks(*into->value, here, *from->value, there);
  });
}
