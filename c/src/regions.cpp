// SPDX-License-Identifier: MIT
#include <string>

#include "hbmwire/region.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

void hbmwire_region_info_init(hbmwire_region_info* info, size_t struct_size) {
  hbmwire_region_info made{};
  made.dmabuf_fd = HBMWIRE_NO_FD;
  c::initialise(info, struct_size, made);
}

hbmwire_status hbmwire_context_allocate_region(const hbmwire_context* context,
                                               hbmwire_memory_type type, uint64_t size_bytes,
                                               hbmwire_access access,
                                               const hbmwire_memory_options* options,
                                               hbmwire_region** region, hbmwire_error* error) {
  return c::create(region, error, {{context, "context"}}, [&]() -> Result<Region> {
    HBMWIRE_TRY_ASSIGN(const MemoryType of, c::enum_of(type, MemoryType::dmabuf, "type"));
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    HBMWIRE_TRY_ASSIGN(const MemoryOptions wanted, c::memory_options_of(options));
    return context->value->allocate_region(of, size_bytes, rights, wanted);
  });
}

hbmwire_status hbmwire_context_register_memory(const hbmwire_context* context, uint64_t address,
                                               uint64_t length_bytes, hbmwire_access access,
                                               hbmwire_region** region, hbmwire_error* error) {
  return c::create(region, error, {{context, "context"}}, [&]() -> Result<Region> {
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    return context->value->register_memory(address, length_bytes, rights);
  });
}

hbmwire_status hbmwire_context_register_allocation(const hbmwire_context* context,
                                                   const hbmwire_allocation* allocation,
                                                   hbmwire_access access, hbmwire_region** region,
                                                   hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{context, "context"}, {allocation, "allocation"}};
  return c::create(region, error, needed, [&]() -> Result<Region> {
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    return context->value->register_memory(*allocation->value, rights);
  });
}

hbmwire_status hbmwire_context_register_dmabuf(const hbmwire_context* context,
                                               const hbmwire_dmabuf* dmabuf, hbmwire_access access,
                                               hbmwire_region** region, hbmwire_error* error) {
  return c::create(region, error, {{context, "context"}}, [&]() -> Result<Region> {
    HBMWIRE_TRY_ASSIGN(const Access rights, c::access_of(access));
    HBMWIRE_TRY_ASSIGN(const DmabufMemory given, c::dmabuf_of(dmabuf));
    return context->value->register_dmabuf(given, rights);
  });
}

void hbmwire_region_free(hbmwire_region* region) {
  if (region != nullptr && region->own) delete region;
}

hbmwire_status hbmwire_region_get_info(const hbmwire_region* region, hbmwire_region_info* info,
                                       hbmwire_error* error) {
  return c::run(error, {{region, "region"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    c::fill(info, {.struct_size = 0,
                   .address = region->at->address(),
                   .size_bytes = region->at->size_bytes(),
                   .nic_count = region->at->nics().size(),
                   .path = c::number_of(region->at->path()),
                   .access = static_cast<hbmwire_access>(region->at->access()),
                   .dmabuf_fd = region->at->dmabuf_fd(),
                   .reserved = 0});
    return {};
  });
}

hbmwire_status hbmwire_region_nic(const hbmwire_region* region, size_t index, hbmwire_nic_info* nic,
                                  hbmwire_error* error) {
  return c::run(error, {{region, "region"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(nic, "nic"));
    const std::vector<Nic> nics = region->at->nics();
    if (index >= nics.size()) return c::refuse("the region has no NIC of this index");
    c::fill(nic, c::nic_of(nics[index].info()));
    return {};
  });
}

void* hbmwire_region_host_bytes(const hbmwire_region* region) {
  return region == nullptr ? nullptr : region->at->host_bytes().data();
}

hbmwire_status hbmwire_region_write(const hbmwire_region* region, uint64_t offset_bytes,
                                    const void* from, size_t length_bytes, int64_t timeout_ns,
                                    int32_t cancel_fd, hbmwire_error* error) {
  return c::run(error, {{region, "region"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(from, length_bytes));
    return region->at->write(offset_bytes, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_region_read(const hbmwire_region* region, uint64_t offset_bytes, void* to,
                                   size_t length_bytes, int64_t timeout_ns, int32_t cancel_fd,
                                   hbmwire_error* error) {
  return c::run(error, {{region, "region"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::room_of(to, length_bytes));
    return region->at->read(offset_bytes, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

void hbmwire_path_tried_init(hbmwire_path_tried* tried, size_t struct_size) {
  c::initialise(tried, struct_size, {});
}

hbmwire_status hbmwire_region_explain(const hbmwire_region* region, hbmwire_paths_tried** paths,
                                      hbmwire_error* error) {
  return c::create(paths, error, {{region, "region"}},
                   [&] { return Result<std::vector<PathTried>>(region->at->explain()); });
}

size_t hbmwire_paths_tried_count(const hbmwire_paths_tried* paths) {
  return paths == nullptr ? 0 : paths->all.size();
}

hbmwire_status hbmwire_paths_tried_get(const hbmwire_paths_tried* paths, size_t index,
                                       hbmwire_path_tried* tried, hbmwire_error* refusal,
                                       hbmwire_error* error) {
  return c::run(error, {{paths, "paths"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(tried, "tried"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    HBMWIRE_TRY_ASSIGN(const PathTried* const found, paths->at(index));
    c::fill(tried, c::tried_of(*found));
    c::tell_any(found->refusal, refusal);
    return {};
  });
}

void hbmwire_paths_tried_free(hbmwire_paths_tried* paths) { delete paths; }
