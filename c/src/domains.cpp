// SPDX-License-Identifier: MIT
#include <fcntl.h>

#include <cerrno>

#include "hbmwire/memory_domain.hpp"

#include "handles.hpp"
#include "words.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_context_open(const hbmwire_context* context, hbmwire_memory_type type,
                                    const hbmwire_memory_options* options, hbmwire_domain** domain,
                                    hbmwire_error* error) {
  using Opened = std::shared_ptr<MemoryDomain>;
  return c::create(domain, error, {{context, "context"}}, [&]() -> Result<Opened> {
    HBMWIRE_TRY_ASSIGN(const MemoryType of, c::enum_of(type, MemoryType::dmabuf, "type"));
    HBMWIRE_TRY_ASSIGN(const MemoryOptions wanted, c::memory_options_of(options));
    return context->value->open(of, wanted);
  });
}

void hbmwire_domain_free(hbmwire_domain* domain) { delete domain; }

hbmwire_status hbmwire_domain_device(const hbmwire_domain* domain, hbmwire_device* device,
                                     hbmwire_error* error) {
  return c::run(error, {{domain, "domain"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(device, "device"));
    c::fill(device, c::device_of((*domain->value)->device()));
    return {};
  });
}

size_t hbmwire_domain_copy_engine(const hbmwire_domain* domain, char* text, size_t capacity) {
  return c::copy_text(text, capacity, [&] {
    return domain == nullptr ? std::string_view() : (*domain->value)->copy_engine();
  });
}

hbmwire_status hbmwire_domain_allocate(hbmwire_domain* domain, uint64_t size_bytes,
                                       hbmwire_allocation** allocation, hbmwire_error* error) {
  return c::create(allocation, error, {{domain, "domain"}},
                   [&] { return (*domain->value)->allocate(size_bytes); });
}

hbmwire_status hbmwire_allocation_export_dmabuf(const hbmwire_allocation* allocation,
                                                hbmwire_dmabuf_range* range, hbmwire_error* error) {
  return c::run(error, {{allocation, "allocation"}}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(range, "range"));
    const Allocation& memory = *allocation->value;
    HBMWIRE_TRY_ASSIGN(const DmabufRange exported,
                       memory.domain().export_dmabuf(memory.address(), memory.size_bytes()));
    // A duplicate for the program, since the library's descriptor may be closed with the
    // allocation.
    const int fd = ::fcntl(exported.fd->get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return tl::make_unexpected(system_error(Stage::export_dmabuf, "dup", errno));
    c::fill(range, {.struct_size = 0,
                    .base_address = exported.base_address,
                    .offset_bytes = exported.offset_bytes,
                    .length_bytes = exported.length_bytes,
                    .generation = exported.generation,
                    .fd = fd,
                    .writable = exported.writable ? 1 : 0});
    return {};
  });
}

hbmwire_status hbmwire_allocation_advise(const hbmwire_allocation* allocation,
                                         hbmwire_advice advice, hbmwire_error* error) {
  return c::run(error, {{allocation, "allocation"}}, [&]() -> Result<void> {
    const Allocation& memory = *allocation->value;
    HBMWIRE_TRY_ASSIGN(const Advice given, c::enum_of(advice, Advice::will_not_need, "advice"));
    return memory.domain().advise(memory.address(), memory.size_bytes(), given);
  });
}

hbmwire_status hbmwire_domain_copy_in(hbmwire_domain* domain, uint64_t address, const void* from,
                                      size_t length_bytes, int64_t timeout_ns, int32_t cancel_fd,
                                      hbmwire_error* error) {
  return c::run(error, {{domain, "domain"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(from, length_bytes));
    return (*domain->value)->copy_in(address, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_domain_copy_out(hbmwire_domain* domain, uint64_t address, void* to,
                                       size_t length_bytes, int64_t timeout_ns, int32_t cancel_fd,
                                       hbmwire_error* error) {
  return c::run(error, {{domain, "domain"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::room_of(to, length_bytes));
    return (*domain->value)->copy_out(address, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_domain_start_copy_in(hbmwire_domain* domain, uint64_t address,
                                            const void* from, size_t length_bytes,
                                            hbmwire_copy** copy, hbmwire_error* error) {
  return c::create(copy, error, {{domain, "domain"}}, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(from, length_bytes));
    return (*domain->value)->start_copy_in(address, bytes);
  });
}

hbmwire_status hbmwire_domain_start_copy_out(hbmwire_domain* domain, uint64_t address, void* to,
                                             size_t length_bytes, hbmwire_copy** copy,
                                             hbmwire_error* error) {
  return c::create(copy, error, {{domain, "domain"}}, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::room_of(to, length_bytes));
    return (*domain->value)->start_copy_out(address, bytes);
  });
}

hbmwire_status hbmwire_domain_flush(hbmwire_domain* domain, bool* done, hbmwire_error* error) {
  return c::run(error, {{domain, "domain"}, {done, "done"}}, [&]() -> Result<void> {
    *done = false;
    HBMWIRE_TRY_ASSIGN(*done, (*domain->value)->flush());
    return {};
  });
}
