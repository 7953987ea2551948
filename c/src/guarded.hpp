// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "hbmwire/error.hpp"

#include "hbmwire.h"

/// Runs the body of each function of the C interface: checks arguments, lets no exception out, and
/// turns an error into a number and a structure of the caller.
namespace hbmwire::c {

/// A pointer that a function requires, and its name for the error.
struct Argument {
  const void* pointer;
  const char* name;
};

/// The error for a caller that asked for something impossible. `call` is a static string.
[[nodiscard]] tl::unexpected<Error> refuse(const char* call,
                                           std::string_view subject = {}) noexcept;

/// Errors: one of the pointers is NULL.
[[nodiscard]] Result<void> need(std::initializer_list<Argument> arguments) noexcept;

/// Whether `struct_size` can be the size of a caller's structure: the structure has room for the
/// size itself, and is no larger than structures of the interface can be.
[[nodiscard]] bool is_size(std::size_t struct_size) noexcept;

/// Writes an error, or success if `failed` is null, into a structure of the caller, which may be
/// NULL. Returns the code.
hbmwire_status tell(const Error* failed, hbmwire_error* error) noexcept;

/// Whether the error can be written to: it is NULL, or was made by hbmwire_error_init().
[[nodiscard]] inline bool is_usable(const hbmwire_error* error) noexcept {
  return error == nullptr || is_size(error->struct_size);
}

/// The same check for an error other than the function's last argument.
[[nodiscard]] Result<void> need_usable(const hbmwire_error* error, const char* name) noexcept;

/// The error in the exception that is being handled.
[[nodiscard]] Error error_of_exception() noexcept;

/// Calls `body()`, which returns a Result<void>, if no required argument is NULL.
template <class Body>
hbmwire_status run(hbmwire_error* error, std::initializer_list<Argument> arguments,
                   const Body& body) noexcept {
  if (!is_usable(error)) return HBMWIRE_INVALID_ARGUMENT;
  try {
    Result<void> done = need(arguments);
    if (done) done = body();
    return tell(done ? nullptr : &done.error(), error);
  } catch (...) {
    const Error failed = error_of_exception();
    return tell(&failed, error);
  }
}

/// run() for a function that gives a handle to the result of `make()`. Allocates the handle first,
/// so that nothing has begun if there is no memory for it.
template <class Handle, class Make>
hbmwire_status create(Handle** out, hbmwire_error* error, std::initializer_list<Argument> arguments,
                      const Make& make) noexcept {
  if (out != nullptr) *out = nullptr;
  return run(error, arguments, [&]() -> Result<void> {
    HBMWIRE_TRY(need({{out, "the place of the new handle"}}));
    auto handle = std::make_unique<Handle>();
    auto made = make();
    if (!made) return tl::make_unexpected(made.error());
    handle->hold(std::move(*made));
    *out = handle.release();
    return {};
  });
}

/// create() if there may be nothing to give: `make()` returns an optional, and `out` is NULL if
/// that is empty.
template <class Handle, class Make>
hbmwire_status create_any(Handle** out, hbmwire_error* error,
                          std::initializer_list<Argument> arguments, const Make& make) noexcept {
  if (out != nullptr) *out = nullptr;
  return run(error, arguments, [&]() -> Result<void> {
    HBMWIRE_TRY(need({{out, "the place of the new handle"}}));
    auto handle = std::make_unique<Handle>();
    auto made = make();
    if (!made) return tl::make_unexpected(made.error());
    if (!*made) return {};
    handle->hold(std::move(**made));
    *out = handle.release();
    return {};
  });
}

/// Calls `body()`, which returns text, and copies the text as snprintf(3) does. No text if it
/// throws.
template <class Body>
std::size_t copy_text(char* text, std::size_t capacity, const Body& body) noexcept {
  if (text == nullptr) capacity = 0;
  if (capacity != 0) *text = '\0';
  try {
    const auto all = body();
    if (capacity != 0) {
      const std::size_t fits = std::min(all.size(), capacity - 1);
      std::memcpy(text, all.data(), fits);
      text[fits] = '\0';
    }
    return all.size();
  } catch (...) {
    return 0;
  }
}

/// Fills in a structure of the caller with the defaults of this library's version.
template <class T>
void initialise(T* object, std::size_t struct_size, T defaults) noexcept {
  if (object == nullptr || !is_size(struct_size)) return;
  defaults.struct_size = struct_size;
  std::memset(static_cast<void*>(object), 0, struct_size);
  std::memcpy(static_cast<void*>(object), &defaults, std::min(struct_size, sizeof(T)));
}

/// The caller's options on top of the defaults; NULL: the defaults. Errors: an impossible size, or
/// options that this version does not know and that are not 0.
template <class T>
Result<T> options_of(const T* given, T defaults) noexcept {
  defaults.struct_size = sizeof(T);
  if (given == nullptr) return defaults;
  const std::size_t size = given->struct_size;
  if (!is_size(size)) return refuse("options without their size: call their _init()");
  const auto* const bytes = reinterpret_cast<const char*>(given);
  const auto is_set = [](char byte) { return byte != 0; };
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, is_set))
    return refuse("options of a later version of hbmwire.h than the library's");
  std::memcpy(static_cast<void*>(&defaults), given, std::min(size, sizeof(T)));
  defaults.struct_size = sizeof(T);
  return defaults;
}

/// Errors: the caller's structure for an answer is NULL, or has an impossible size.
template <class T>
Result<void> need_answer(const T* answer, const char* name) noexcept {
  HBMWIRE_TRY(need({{answer, name}}));
  if (!is_size(answer->struct_size))
    return refuse("an answer without its size: call its _init()", name);
  return {};
}

/// Writes as much of an answer as the caller's structure has room for. Keeps the caller's
/// `struct_size`, whatever `value` has there. Call need_answer() before.
template <class T>
void fill(T* answer, T value) noexcept {
  value.struct_size = answer->struct_size;
  std::memcpy(static_cast<void*>(answer), &value, std::min(value.struct_size, sizeof(T)));
}

}  // namespace hbmwire::c
