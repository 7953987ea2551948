// SPDX-License-Identifier: MIT
#include "group/slurm_nodes.hpp"

#include <cstdint>
#include <optional>

#include "base/setting_numbers.hpp"

namespace hbmwire::detail {

namespace {

constexpr std::size_t kMaxHostBytes = 255;             // of a name, RFC 1035
constexpr std::uint64_t kMaxHostNumber = 999'999'999;  // 9 digits, as Slurm has at most
constexpr std::size_t kMaxHostDigits = 18;             // with zeros before them

/// "03-07" or "9", with as many digits as are written.
struct HostRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t digits = 0;
};

std::optional<HostRange> host_range(std::string_view text) {
  const std::size_t hyphen = text.find('-');
  const std::string_view low = text.substr(0, hyphen);
  const std::string_view high = hyphen == std::string_view::npos ? low : text.substr(hyphen + 1);
  HostRange range{.digits = low.size()};
  if (low.size() > kMaxHostDigits || high.size() > kMaxHostDigits ||
      !setting_numbers::parse_up_to(low, kMaxHostNumber, range.first) ||
      !setting_numbers::parse_up_to(high, kMaxHostNumber, range.last) || range.first > range.last)
    return std::nullopt;
  return range;
}

std::string padded(std::uint64_t number, std::size_t digits) {
  std::string text = std::to_string(number);
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return text;
}

/// One part of the list, between commas that stand in no bracket.
class HostPart {
 public:
  HostPart(std::vector<std::string>& names, std::size_t most) : names_(names), most_(most) {}

  /// Adds the names that begin with `begin` and go on as `rest` says; false: `rest` is malformed. A
  /// bracket may follow another one: the numbers of the last one count fastest.
  // NOLINTNEXTLINE(misc-no-recursion): its depth is bounded by kMaxHostBytes
  bool expand(const std::string& begin, std::string_view rest) {
    const std::size_t bracket = rest.find_first_of("[]");
    const std::string name = begin + std::string(rest.substr(0, bracket));
    if (name.size() > kMaxHostBytes) return false;
    if (bracket == std::string_view::npos) {
      if (name.empty()) return false;
      names_.push_back(name);
      return true;
    }
    const std::size_t end = rest.find(']', bracket);
    if (rest[bracket] == ']' || end == std::string_view::npos) return false;
    std::string_view ranges = rest.substr(bracket + 1, end - bracket - 1);
    for (;;) {
      const std::size_t comma = ranges.find(',');
      const auto range = host_range(ranges.substr(0, comma));
      if (!range || !expand_range(name, *range, rest.substr(end + 1))) return false;
      if (comma == std::string_view::npos) return true;
      ranges.remove_prefix(comma + 1);
    }
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion)
  bool expand_range(const std::string& begin, const HostRange& range, std::string_view rest) {
    for (std::uint64_t number = range.first; number <= range.last; ++number) {
      if (names_.size() >= most_) return true;
      if (!expand(begin + padded(number, range.digits), rest)) return false;
    }
    return true;
  }

  std::vector<std::string>& names_;
  std::size_t most_;
};

/// Where the first part ends: at a comma that stands in no bracket.
std::size_t end_of_part(std::string_view list) {
  bool is_inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') is_inside = true;
    if (list[i] == ']') is_inside = false;
    if (list[i] == ',' && !is_inside) return i;
  }
  return std::string_view::npos;
}

bool has_host_letters_alone(std::string_view list) {
  return list.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             "-._,[]") == std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> slurm_nodes(std::string_view list, std::size_t most,
                                             std::string_view variable) {
  const auto refuse = [&] {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                          "the variable is no list of nodes, as node[01-04],x1",
                                          variable, Hint::group_launcher));
  };
  if (!has_host_letters_alone(list)) return refuse();
  std::vector<std::string> names;
  while (names.size() < most) {
    const std::size_t comma = end_of_part(list);
    if (!HostPart(names, most).expand({}, list.substr(0, comma))) return refuse();
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return names;
}

}  // namespace hbmwire::detail
