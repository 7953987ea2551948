// SPDX-License-Identifier: MIT
#include "hbmwire/memory.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

void hbmwire_memory_options_init(hbmwire_memory_options* options, size_t struct_size) {
  hbmwire_memory_options made{};
  made.numa_node = HBMWIRE_UNSET;
  c::initialise(options, struct_size, made);
}

void hbmwire_dmabuf_init(hbmwire_dmabuf* dmabuf, size_t struct_size) {
  hbmwire_dmabuf made{};
  made.fd = HBMWIRE_NO_FD;
  c::initialise(dmabuf, struct_size, made);
}

void hbmwire_gaudi_memory_init(hbmwire_gaudi_memory* memory, size_t struct_size) {
  hbmwire_gaudi_memory made{};
  made.device_fd = HBMWIRE_NO_FD;
  c::initialise(memory, struct_size, made);
}

uint64_t hbmwire_allocation_address(const hbmwire_allocation* allocation) {
  return allocation == nullptr ? 0 : allocation->value->address();
}

uint64_t hbmwire_allocation_size_bytes(const hbmwire_allocation* allocation) {
  return allocation == nullptr ? 0 : allocation->value->size_bytes();
}

hbmwire_memory_type hbmwire_allocation_type(const hbmwire_allocation* allocation) {
  return allocation == nullptr ? -1 : c::number_of(allocation->value->domain().device().type);
}

void hbmwire_allocation_free(hbmwire_allocation* allocation) { delete allocation; }

void hbmwire_dmabuf_range_init(hbmwire_dmabuf_range* range, size_t struct_size) {
  hbmwire_dmabuf_range made{};
  made.fd = HBMWIRE_NO_FD;
  c::initialise(range, struct_size, made);
}
