// SPDX-License-Identifier: MIT
#include "tools/common/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace hbmwire::tools {
namespace {

constexpr std::string_view kUnits = "KMGT";

// Turns "", "k", "K", "KiB" and so on into a number of bits to shift by.
std::optional<unsigned> parse_unit(std::string_view unit) noexcept {
  if (unit.empty()) return 0;
  const char letter = unit.front() == 'k' ? 'K' : unit.front();
  const auto found = kUnits.find(letter);
  unit.remove_prefix(1);
  if (found == std::string_view::npos || (!unit.empty() && unit != "iB")) return std::nullopt;
  return 10 * (static_cast<unsigned>(found) + 1);
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || number == 0) return std::nullopt;
  const auto shift = parse_unit(text.substr(static_cast<std::size_t>(rest - text.data())));
  if (!shift || (number << *shift) >> *shift != number) return std::nullopt;
  return number << *shift;
}

std::string size_text(std::uint64_t bytes) {
  for (std::size_t unit = kUnits.size(); unit-- > 0;) {
    const std::uint64_t one = std::uint64_t{1} << (10 * (unit + 1));
    if (bytes >= one && bytes % one == 0) return fmt::format("{} {}iB", bytes / one, kUnits[unit]);
  }
  return fmt::format("{} bytes", bytes);
}

std::string rate_text(std::uint64_t bytes, std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return "-";
  const double mebibytes = static_cast<double>(bytes) / (1U << 20);
  return fmt::format("{:.1f} MiB/s", mebibytes / (static_cast<double>(nanoseconds) * 1e-9));
}

std::string ints_text(std::span<const std::byte> head, std::uint64_t total_bytes) {
  constexpr std::size_t kShown = 10;
  constexpr std::size_t kWordBytes = sizeof(std::uint32_t);
  if (total_bytes < kWordBytes) {
    std::string text = fmt::format("({} bytes):", total_bytes);
    for (const auto byte : head.first(std::min<std::size_t>(head.size(), total_bytes))) {
      text += fmt::format(" {:#04x}", std::to_integer<unsigned>(byte));
    }
    return text;
  }
  const std::uint64_t all = total_bytes / kWordBytes;
  const std::size_t count =
      std::min({kShown, static_cast<std::size_t>(all), head.size() / kWordBytes});
  std::string text = fmt::format("(first {} of {} ints):", count, all);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, head.data() + i * kWordBytes, kWordBytes);
    text += fmt::format(" {}", word);
  }
  return count < all ? text + " ..." : text;
}

bool is_base_name(std::string_view name) noexcept {
  constexpr std::size_t kLongestName = 255;  // NAME_MAX of every file system of Linux
  if (name.empty() || name.size() > kLongestName || name == "." || name == "..") return false;
  return std::ranges::none_of(name, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '/';
  });
}

std::string base_name_of(const std::string& path) {
  const auto slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name == "." || name == ".." ? std::string() : name;
}

}  // namespace hbmwire::tools
