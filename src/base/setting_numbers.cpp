// SPDX-License-Identifier: MIT
#include "base/setting_numbers.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace hbmwire::setting_numbers {

namespace {

constexpr std::string_view kUnlimited = "unlimited";
constexpr std::uint64_t kMost = ~std::uint64_t{0};

// A suffix of a number of bytes, and the bytes that it stands for.
struct Unit {
  char suffix;
  std::uint64_t bytes;
};

// The largest comes first, because printing takes the first that divides the value.
constexpr std::array kUnits{Unit{'G', 1ULL << 30U}, Unit{'M', 1ULL << 20U}, Unit{'K', 1ULL << 10U}};

}  // namespace

bool parse_count(std::string_view text, std::uint64_t& value) noexcept {
  std::uint64_t read = 0;
  // from_chars accepts no sign or blank before an unsigned number.
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (failure != std::errc{} || end != text.data() + text.size()) return false;
  value = read;
  return true;
}

bool parse_bytes(std::string_view text, std::uint64_t& value) noexcept {
  if (text == kUnlimited) {
    value = kMost;
    return true;
  }
  std::uint64_t unit_bytes = 1;
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    unit_bytes = unit.bytes;
    text.remove_suffix(1);
    break;
  }
  std::uint64_t units = 0;
  if (!parse_count(text, units) || units > kMost / unit_bytes) return false;
  value = units * unit_bytes;
  return true;
}

bool parse_ratio(std::string_view text, double& value) noexcept {
  double read = 0;
  const auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), read, std::chars_format::fixed);
  if (failure != std::errc{} || end != text.data() + text.size()) return false;
  if (!(read >= 0 && read <= 1)) return false;  // also refuses "nan", which from_chars reads
  value = read;
  return true;
}

bool parse_up_to(std::string_view text, std::uint64_t most, std::uint64_t& value) noexcept {
  std::uint64_t read = 0;
  if (!parse_count(text, read) || read > most) return false;
  value = read;
  return true;
}

std::string print_count(std::uint64_t value) { return fmt::format("{}", value); }

std::string print_bytes(std::uint64_t value) {
  if (value == kMost) return std::string(kUnlimited);
  for (const Unit& unit : kUnits) {
    if (value != 0 && value % unit.bytes == 0)
      return fmt::format("{}{}", value / unit.bytes, unit.suffix);
  }
  return print_count(value);
}

std::string print_ratio(double value) { return fmt::format("{}", value); }

}  // namespace hbmwire::setting_numbers
