// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Numbers as settings write them. Each parser reads all of `text`, or returns false and leaves
/// `value` unchanged.
namespace hbmwire::setting_numbers {

/// Decimal digits.
bool parse_count(std::string_view text, std::uint64_t& value) noexcept;

/// Decimal digits, optionally with K, M or G for 2^10, 2^20 or 2^30; "unlimited" is the largest
/// number of 64 bits.
bool parse_bytes(std::string_view text, std::uint64_t& value) noexcept;

/// A number from 0 to 1, such as 0.25.
bool parse_ratio(std::string_view text, double& value) noexcept;

/// Decimal digits, from 0 to `most`.
bool parse_up_to(std::string_view text, std::uint64_t most, std::uint64_t& value) noexcept;

/// Print a text that the parsers above read back.
std::string print_count(std::uint64_t value);
std::string print_bytes(std::uint64_t value);
std::string print_ratio(double value);

}  // namespace hbmwire::setting_numbers
