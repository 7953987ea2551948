// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Numbers as settings have them. Each reads all of `text` or says false and leaves `value` alone.
namespace hbmwire::setting_numbers {

/// Decimal digits.
bool parse_count(std::string_view text, std::uint64_t& value) noexcept;

/// Decimal digits, and K, M or G for 2^10, 2^20 or 2^30 times as many; "unlimited" for all that 64
/// bits can say.
bool parse_bytes(std::string_view text, std::uint64_t& value) noexcept;

/// From 0 to 1, as 0.25.
bool parse_ratio(std::string_view text, double& value) noexcept;

/// Decimal digits, from 0 to `most`.
bool parse_up_to(std::string_view text, std::uint64_t most, std::uint64_t& value) noexcept;

/// What they read.
std::string print_count(std::uint64_t value);
std::string print_bytes(std::uint64_t value);
std::string print_ratio(double value);

}  // namespace hbmwire::setting_numbers
