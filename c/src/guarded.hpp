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

/// How each function of the C interface is run: arguments are checked, no exception leaves, and an
/// error becomes a number and a structure of the caller's.
namespace hbmwire::c {

/// A pointer that a function can't do without, and its name for the error.
struct Argument {
  const void* pointer;
  const char* name;
};

/// The error of a caller that asked for something that can't be. `call` is a static string.
[[nodiscard]] tl::unexpected<Error> refuse(const char* call,
                                           std::string_view subject = {}) noexcept;

/// Errors: one of them is NULL.
[[nodiscard]] Result<void> need(std::initializer_list<Argument> arguments) noexcept;

/// Whether a structure of the caller's that begins with this number can be one: its own number
/// fits, and is no more than any version of the library will ever have.
[[nodiscard]] bool is_size(std::size_t struct_size) noexcept;

/// Writes an error, or success where there is none, into a structure of the caller's, which may be
/// NULL. Gives its code.
hbmwire_status tell(const Error* failed, hbmwire_error* error) noexcept;

/// Whether it can be written to: NULL, or made by hbmwire_error_init().
[[nodiscard]] inline bool is_usable(const hbmwire_error* error) noexcept {
  return error == nullptr || is_size(error->struct_size);
}

/// The same as a check of another error than the function's own.
[[nodiscard]] Result<void> need_usable(const hbmwire_error* error, const char* name) noexcept;

/// The error in the exception that is being handled.
[[nodiscard]] Error error_of_exception() noexcept;

/// Calls `body()`, which gives a Result<void>, when all arguments are there.
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

/// The same for a function that gives a handle of what `make()` gives. The handle is allocated
/// first, so that nothing has begun where there is no memory for it.
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

/// The same where there may be nothing to give: `make()` gives an optional, and `out` is NULL then.
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

/// Calls `body()`, which gives text, and copies it as snprintf(3) does. Nothing where it throws.
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

/// Makes a structure of the caller's that has these defaults in the version of this library.
template <class T>
void initialise(T* object, std::size_t struct_size, T defaults) noexcept {
  if (object == nullptr || !is_size(struct_size)) return;
  defaults.struct_size = struct_size;
  std::memset(static_cast<void*>(object), 0, struct_size);
  std::memcpy(static_cast<void*>(object), &defaults, std::min(struct_size, sizeof(T)));
}

/// Options as the caller gave them, on top of the defaults; NULL: the defaults. Errors: a size that
/// none can have, or options that this version does not know and that are not 0.
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

/// Errors: the caller's structure for an answer is NULL, or has a size that none can have.
template <class T>
Result<void> need_answer(const T* answer, const char* name) noexcept {
  HBMWIRE_TRY(need({{answer, name}}));
  if (!is_size(answer->struct_size))
    return refuse("an answer without its size: call its _init()", name);
  return {};
}

/// Writes as much of an answer as the caller's structure has room for, which must be checked.
template <class T>
void fill(T* answer, T value) noexcept {
  value.struct_size = answer->struct_size;
  std::memcpy(static_cast<void*>(answer), &value, std::min(value.struct_size, sizeof(T)));
}

}  // namespace hbmwire::c
