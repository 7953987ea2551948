// SPDX-License-Identifier: MIT
#include "group/left_addresses.hpp"

#include <algorithm>
#include <optional>

#include "hbmwire/host_port.hpp"

namespace hbmwire::detail {

namespace {

constexpr std::string_view kFirstLine = "hbmwire group 1";
constexpr std::string_view kLastLine = "end";
constexpr std::size_t kMaxAddresses = 64;
constexpr std::size_t kMaxAddressBytes = 255;

/// The text up to the next line's end, which is taken off; none: no line is left.
std::optional<std::string_view> next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

bool looks_like_address(std::string_view line) {
  if (line.size() > kMaxAddressBytes) return false;
  for (const char letter : line) {
    if (letter <= ' ' || letter > '~') return false;
  }
  const auto at = split_host_port(line);
  return at && !at->host.empty() && at->port != 0;
}

}  // namespace

std::string left_text(const std::vector<std::string>& addresses) {
  std::string text(kFirstLine);
  text += '\n';
  // A reader takes no more, and the first ones are the most useful.
  for (std::size_t i = 0; i < std::min(addresses.size(), kMaxAddresses); ++i) {
    constexpr std::size_t kLineEnds = 2;  // of this address and of the last line
    if (text.size() + addresses[i].size() + kLastLine.size() + kLineEnds > kMaxLeftBytes) break;
    text += addresses[i] + '\n';
  }
  text += kLastLine;
  text += '\n';
  return text;
}

std::vector<std::string> addresses_in(std::string_view text) {
  if (text.size() > kMaxLeftBytes || next_line(text) != kFirstLine) return {};
  std::vector<std::string> addresses;
  for (auto line = next_line(text); line && *line != kLastLine; line = next_line(text)) {
    if (addresses.size() == kMaxAddresses || !looks_like_address(*line)) return {};
    addresses.emplace_back(*line);
    if (text.empty()) return {};  // a text without its last line is only a part
  }
  return text.empty() ? addresses : std::vector<std::string>();
}

}  // namespace hbmwire::detail
