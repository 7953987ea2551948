// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "hbmwire/error.hpp"

#include "guarded.hpp"
#include "hbmwire.h"

/// Converts the library's enumerations and errors to the numbers of the C interface, and back.
namespace hbmwire::c {

/// The number of an enumerator, which is the same in both interfaces.
template <class Enum>
[[nodiscard]] constexpr std::int32_t number_of(Enum value) noexcept {
  return static_cast<std::int32_t>(value);
}

/// The same for an optional enumerator: HBMWIRE_UNSET if it is empty.
template <class Enum>
[[nodiscard]] constexpr std::int32_t number_of(const std::optional<Enum>& value) noexcept {
  return value ? static_cast<std::int32_t>(*value) : std::int32_t{HBMWIRE_UNSET};
}

/// The enumerator with this number, up to `last`. Errors: any other number.
template <class Enum>
[[nodiscard]] Result<Enum> enum_of(std::int32_t number, Enum last, const char* name) noexcept {
  if (number < 0 || number > static_cast<std::int32_t>(last))
    return refuse("a number that no constant of hbmwire.h has", name);
  return static_cast<Enum>(number);
}

/// An optional number of a smaller type; HBMWIRE_UNSET becomes nothing. Errors: it does not fit.
template <class Number>
[[nodiscard]] Result<std::optional<Number>> optional_of(std::int32_t number,
                                                        const char* name) noexcept {
  if (number == HBMWIRE_UNSET) return std::optional<Number>{};
  if (!std::in_range<Number>(number)) return refuse("a number that is out of range", name);
  return std::optional<Number>{static_cast<Number>(number)};
}

/// An error with the numbers of the C interface; its size is not set.
[[nodiscard]] hbmwire_error number_of(const Error& error) noexcept;

/// The library's error. Numbers that it does not know become the defaults of Error.
[[nodiscard]] Error error_of(const hbmwire_error& error) noexcept;

}  // namespace hbmwire::c
