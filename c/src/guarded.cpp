// SPDX-License-Identifier: MIT
#include "guarded.hpp"

#include <exception>

#include "words.hpp"

namespace hbmwire::c {
namespace {

// Every structure of the interface is far smaller, so a greater number is no size.
constexpr std::size_t kLargestStruct = 4096;

}  // namespace

tl::unexpected<Error> refuse(const char* call, std::string_view subject) noexcept {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, call, subject));
}

Result<void> need(std::initializer_list<Argument> arguments) noexcept {
  for (const Argument& one : arguments) {
    if (one.pointer == nullptr) return refuse("a required argument is NULL", one.name);
  }
  return {};
}

bool is_size(std::size_t struct_size) noexcept {
  return struct_size >= sizeof(std::size_t) && struct_size <= kLargestStruct;
}

hbmwire_status tell(const Error* failed, hbmwire_error* error) noexcept {
  const hbmwire_error told = failed == nullptr ? hbmwire_error{} : number_of(*failed);
  if (error != nullptr && is_size(error->struct_size)) {
    hbmwire_error written = told;
    if (written.call == nullptr) written.call = "";
    fill(error, written);
  }
  return told.code;
}

Result<void> need_usable(const hbmwire_error* error, const char* name) noexcept {
  if (!is_usable(error)) return refuse("an error that hbmwire_error_init() has not made", name);
  return {};
}

Error error_of_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return make_error(Errc::exhausted, Stage::configure, "allocate memory", {},
                      Hint::host_memory_exhausted);
  } catch (...) {
    return make_error(Errc::system, Stage::configure, "an exception within the library");
  }
}

}  // namespace hbmwire::c
