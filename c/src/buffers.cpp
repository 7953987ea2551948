// SPDX-License-Identifier: MIT
#include "hbmwire/buffer.hpp"

#include "handles.hpp"

using namespace hbmwire;

hbmwire_status hbmwire_buffer_create(const hbmwire_region* region, hbmwire_buffer** buffer,
                                     hbmwire_error* error) {
  return c::create(buffer, error, {{region, "region"}},
                   [&] { return Buffer::create(*region->at); });
}

void hbmwire_buffer_free(hbmwire_buffer* buffer) { delete buffer; }

uint64_t hbmwire_buffer_size_bytes(const hbmwire_buffer* buffer) {
  return buffer == nullptr ? 0 : buffer->value->size_bytes();
}

size_t hbmwire_buffer_copy_path(const hbmwire_buffer* buffer, char* text, size_t capacity) {
  return c::copy_text(text, capacity, [&] {
    return buffer == nullptr ? std::string_view() : buffer->value->copy_path();
  });
}

hbmwire_status hbmwire_buffer_write(hbmwire_buffer* buffer, uint64_t offset_bytes, const void* from,
                                    size_t length_bytes, int64_t timeout_ns, int32_t cancel_fd,
                                    hbmwire_error* error) {
  return c::run(error, {{buffer, "buffer"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(from, length_bytes));
    return buffer->value->write(offset_bytes, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_buffer_read(hbmwire_buffer* buffer, uint64_t offset_bytes, void* to,
                                   size_t length_bytes, int64_t timeout_ns, int32_t cancel_fd,
                                   hbmwire_error* error) {
  return c::run(error, {{buffer, "buffer"}}, [&]() -> Result<void> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::room_of(to, length_bytes));
    return buffer->value->read(offset_bytes, bytes, c::wait_of(timeout_ns, cancel_fd));
  });
}

hbmwire_status hbmwire_buffer_start_write(hbmwire_buffer* buffer, uint64_t offset_bytes,
                                          const void* from, size_t length_bytes,
                                          hbmwire_copy** copy, hbmwire_error* error) {
  return c::create(copy, error, {{buffer, "buffer"}}, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::bytes_of(from, length_bytes));
    return buffer->value->start_write(offset_bytes, bytes);
  });
}

hbmwire_status hbmwire_buffer_start_read(hbmwire_buffer* buffer, uint64_t offset_bytes, void* to,
                                         size_t length_bytes, hbmwire_copy** copy,
                                         hbmwire_error* error) {
  return c::create(copy, error, {{buffer, "buffer"}}, [&]() -> Result<PendingCopy> {
    HBMWIRE_TRY_ASSIGN(const auto bytes, c::room_of(to, length_bytes));
    return buffer->value->start_read(offset_bytes, bytes);
  });
}

hbmwire_status hbmwire_copy_poll(hbmwire_copy* copy, bool* over, hbmwire_error* error) {
  return c::run(error, {{copy, "copy"}, {over, "over"}}, [&]() -> Result<void> {
    *over = false;
    HBMWIRE_TRY_ASSIGN(*over, copy->value->poll());
    return {};
  });
}

hbmwire_status hbmwire_copy_wait(hbmwire_copy* copy, int64_t timeout_ns, int32_t cancel_fd,
                                 hbmwire_error* error) {
  return c::run(error, {{copy, "copy"}},
                [&] { return copy->value->wait(c::wait_of(timeout_ns, cancel_fd)); });
}

void hbmwire_copy_free(hbmwire_copy* copy) { delete copy; }
