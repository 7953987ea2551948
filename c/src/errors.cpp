// SPDX-License-Identifier: MIT
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/version.hpp"

#include "guarded.hpp"
#include "words.hpp"

using namespace hbmwire;

namespace {

/// A caller's error as the library's. Members that the structure does not have get their defaults.
Error read(const hbmwire_error* error) {
  if (error == nullptr) return {};
  hbmwire_error whole{};
  const std::size_t size = c::is_size(error->struct_size) ? error->struct_size : 0;
  std::memcpy(&whole, error, std::min(size, sizeof whole));
  return c::error_of(whole);
}

bool is_failure(const hbmwire_error* error) {
  return error != nullptr && c::is_size(error->struct_size) && error->code != HBMWIRE_OK;
}

}  // namespace

void hbmwire_error_init(hbmwire_error* error, size_t struct_size) {
  hbmwire_error none{};
  none.call = "";
  c::initialise(error, struct_size, none);
}

size_t hbmwire_error_describe(const hbmwire_error* error, char* text, size_t capacity) {
  return c::copy_text(text, capacity,
                      [&] { return is_failure(error) ? describe(read(error)) : std::string(); });
}

size_t hbmwire_error_describe_with(const hbmwire_error* error, const char* remedy, char* text,
                                   size_t capacity) {
  return c::copy_text(text, capacity, [&] {
    return is_failure(error) ? describe(read(error), remedy == nullptr ? "" : remedy)
                             : std::string();
  });
}

size_t hbmwire_error_number_text(const hbmwire_error* error, char* text, size_t capacity) {
  return c::copy_text(text, capacity,
                      [&] { return is_failure(error) ? number_text(read(error)) : std::string(); });
}

bool hbmwire_error_is_shortage(const hbmwire_error* error) {
  return is_failure(error) && is_shortage(read(error));
}

void hbmwire_versions_init(hbmwire_versions* versions, size_t struct_size) {
  c::initialise(versions, struct_size, {});
}

hbmwire_status hbmwire_get_versions(hbmwire_versions* versions, hbmwire_error* error) {
  return c::run(error, {}, [&]() -> Result<void> {
    HBMWIRE_TRY(c::need_answer(versions, "versions"));
    const Version library = version();
    const ProtocolVersions protocols = protocol_versions();
    c::fill(versions, {.struct_size = 0,
                       .major = library.major,
                       .minor = library.minor,
                       .patch = library.patch,
                       .endpoint_protocol = protocols.endpoint,
                       .memory_key_protocol = protocols.memory_key,
                       .attach_protocol = protocols.attach});
    return {};
  });
}
