// SPDX-License-Identifier: MIT
#include "hbmwire/context.hpp"

#include <string>

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

Result<ContextOptions> context_options_of(const hbmwire_context_options* options) {
  hbmwire_context_options defaults;
  hbmwire_context_options_init(&defaults, sizeof defaults);
  HBMWIRE_TRY_ASSIGN(const hbmwire_context_options given, c::options_of(options, defaults));
  ContextOptions made;
  if (given.memory_type_count != 0) HBMWIRE_TRY(c::need({{given.memory_types, "memory_types"}}));
  for (std::size_t i = 0; i < given.memory_type_count; ++i) {
    HBMWIRE_TRY_ASSIGN(const MemoryType type,
                       c::enum_of(given.memory_types[i], MemoryType::dmabuf, "memory_types"));
    made.memory.push_back(type);
  }
  HBMWIRE_TRY_ASSIGN(made.nics, c::names_of(given.nics, given.nic_count));
  HBMWIRE_TRY_ASSIGN(made.gid_index, c::optional_of<std::uint8_t>(given.gid_index, "gid_index"));
  HBMWIRE_TRY_ASSIGN(made.paths,
                     c::policy_of(given.require_path, given.allow_paths, given.allow_path_count));
  made.default_device = c::text_of(given.default_device);
  return made;
}

Result<const MemoryProbe*> probe_of(const hbmwire_context* context, hbmwire_memory_type type) {
  HBMWIRE_TRY_ASSIGN(const MemoryType asked, c::enum_of(type, MemoryType::dmabuf, "type"));
  for (const MemoryProbe& probe : context->value->memory()) {
    if (probe.type == asked) return &probe;
  }
  return tl::make_unexpected(make_error(
      Errc::not_found, Stage::probe, "a type of memory that was not looked for", to_string(asked)));
}

}  // namespace

void hbmwire_context_options_init(hbmwire_context_options* options, size_t struct_size) {
  hbmwire_context_options made{};
  made.require_path = HBMWIRE_UNSET;
  made.gid_index = HBMWIRE_UNSET;
  c::initialise(options, struct_size, made);
}

hbmwire_status hbmwire_context_create(const hbmwire_context_options* options,
                                      hbmwire_context** context, hbmwire_error* error) {
  return c::create(context, error, {}, [&]() -> Result<Context> {
    HBMWIRE_TRY_ASSIGN(const ContextOptions wanted, context_options_of(options));
    return Context::create(wanted);
  });
}

void hbmwire_context_free(hbmwire_context* context) { delete context; }

void hbmwire_memory_probe_init(hbmwire_memory_probe* probe, size_t struct_size) {
  c::initialise(probe, struct_size, {});
}

void hbmwire_device_init(hbmwire_device* device, size_t struct_size) {
  c::initialise(device, struct_size, {});
}

hbmwire_status hbmwire_context_memory(const hbmwire_context* context, hbmwire_memory_type type,
                                      hbmwire_memory_probe* probe, hbmwire_error* missing,
                                      hbmwire_error* error) {
  return c::run(error, {{context, "context"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(probe, "probe"));
    HBMWIRE_TRY(c::need_usable(missing, "missing"));
    HBMWIRE_TRY_ASSIGN(const MemoryProbe* const found, probe_of(context, type));
    c::fill(probe, {.struct_size = 0,
                    .library = found->library.c_str(),
                    .device_count = found->devices.size(),
                    .type = type,
                    .reserved = 0});
    c::tell_any(found->missing, missing);
    return {};
  });
}

hbmwire_status hbmwire_context_device(const hbmwire_context* context, hbmwire_memory_type type,
                                      size_t index, hbmwire_device* device, hbmwire_error* error) {
  return c::run(error, {{context, "context"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(device, "device"));
    HBMWIRE_TRY_ASSIGN(const MemoryProbe* const found, probe_of(context, type));
    if (index >= found->devices.size()) {
      return tl::make_unexpected(make_error(Errc::not_found, Stage::probe,
                                            "there is no device of this index",
                                            to_string(found->type)));
    }
    c::fill(device, c::device_of(found->devices[index]));
    return {};
  });
}

void hbmwire_address_info_init(hbmwire_address_info* info, size_t struct_size) {
  c::initialise(info, struct_size, {});
}

hbmwire_status hbmwire_context_find(const hbmwire_context* context, uint64_t address,
                                    uint64_t length_bytes, const char* device,
                                    hbmwire_address_info* info, hbmwire_error* no_dmabuf,
                                    hbmwire_error* refusal, hbmwire_error* error) {
  return c::run(error, {{context, "context"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(info, "info"));
    HBMWIRE_TRY(c::need_usable(no_dmabuf, "no_dmabuf"));
    HBMWIRE_TRY(c::need_usable(refusal, "refusal"));
    HBMWIRE_TRY_ASSIGN(const AddressInfo found,
                       context->value->find(address, length_bytes, c::text_of(device)));
    c::fill(info, {.struct_size = 0,
                   .base_address = found.base_address,
                   .size_bytes = found.size_bytes,
                   .generation = found.generation,
                   .device_name = found.device->name.c_str(),
                   .pci_address = found.device->pci_address.c_str(),
                   .type = c::number_of(found.device->type),
                   .path = c::number_of(found.path),
                   .otherwise = c::number_of(found.otherwise),
                   .lifetime = c::number_of(found.lifetime)});
    c::tell_any(found.no_dmabuf, no_dmabuf);
    c::tell_any(found.refusal, refusal);
    return {};
  });
}

hbmwire_status hbmwire_context_borrow(const hbmwire_context* context, uint64_t address,
                                      uint64_t length_bytes, const char* device,
                                      hbmwire_allocation** allocation, hbmwire_error* error) {
  return c::create(allocation, error, {{context, "context"}}, [&] {
    return context->value->borrow(address, length_bytes, c::text_of(device));
  });
}

hbmwire_status hbmwire_context_adopt(const hbmwire_context* context,
                                     const hbmwire_gaudi_memory* memory,
                                     hbmwire_allocation** allocation, hbmwire_error* error) {
  const std::initializer_list<c::Argument> needed{{context, "context"}, {memory, "memory"}};
  return c::create(allocation, error, needed, [&]() -> Result<Allocation> {
    hbmwire_gaudi_memory defaults;
    hbmwire_gaudi_memory_init(&defaults, sizeof defaults);
    HBMWIRE_TRY_ASSIGN(const hbmwire_gaudi_memory given, c::options_of(memory, defaults));
    return context->value->adopt({.device_fd = given.device_fd,
                                  .base_address = given.base_address,
                                  .size_bytes = given.size_bytes});
  });
}

hbmwire_status hbmwire_context_import_dmabuf(const hbmwire_context* context,
                                             const hbmwire_dmabuf* dmabuf,
                                             hbmwire_allocation** allocation,
                                             hbmwire_error* error) {
  return c::create(allocation, error, {{context, "context"}}, [&]() -> Result<Allocation> {
    HBMWIRE_TRY_ASSIGN(const DmabufMemory given, c::dmabuf_of(dmabuf));
    return context->value->import_dmabuf(given);
  });
}

hbmwire_status hbmwire_context_allocate(const hbmwire_context* context, hbmwire_memory_type type,
                                        uint64_t size_bytes, const hbmwire_memory_options* options,
                                        hbmwire_allocation** allocation, hbmwire_error* error) {
  return c::create(allocation, error, {{context, "context"}}, [&]() -> Result<Allocation> {
    HBMWIRE_TRY_ASSIGN(const MemoryType of, c::enum_of(type, MemoryType::dmabuf, "type"));
    HBMWIRE_TRY_ASSIGN(const MemoryOptions wanted, c::memory_options_of(options));
    return context->value->allocate(of, size_bytes, wanted);
  });
}
