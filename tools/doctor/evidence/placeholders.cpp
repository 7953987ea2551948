// SPDX-License-Identifier: MIT
#include "tools/doctor/evidence/placeholders.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

namespace hbmwire::tools::doctor {
namespace {

constexpr std::size_t kUuidBytes = 36;
// Digits of a UUID in machine-id(5), and of an IPv6 address in /proc/net.
constexpr std::size_t kPlainDigits = 32;
constexpr std::size_t kMacPairs = 6;
constexpr std::size_t kEuiPairs = 8;
// Bytes in the address of an IPoIB interface: a queue pair's number and a GID.
constexpr std::size_t kInfinibandPairs = 20;
constexpr std::size_t kLongestPairs = 3 * kInfinibandPairs - 1;
// A MAC follows this prefix: systemd.net-naming-scheme(7).
constexpr std::string_view kPersistentName = "enx";

using Ipv6 = std::array<unsigned char, 16>;
using Ipv4 = std::array<unsigned char, 4>;

bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool are_hex_groups(const std::vector<std::string_view>& groups, std::size_t digits) {
  return std::ranges::all_of(groups, [&](std::string_view group) {
    return group.size() == digits && std::ranges::all_of(group, is_hex);
  });
}

/// The hexadecimal digits of the text, in lower case.
std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (is_hex(c)) digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return digits;
}

// Whether all bits are zero, or all are one: such values identify no machine.
bool is_void(std::string_view text) {
  const std::string digits = digits_of(text);
  return digits.find_first_not_of('0') == std::string::npos ||
         digits.find_first_not_of('f') == std::string::npos;
}

bool has_pairs(std::string_view text, char separator) {
  const auto groups = split(text, separator);
  // PXE writes the type of the hardware before a MAC: BOOTIF=01-...
  const bool counts = groups.size() == kMacPairs || groups.size() == kEuiPairs ||
                      groups.size() == kInfinibandPairs ||
                      (separator == '-' && groups.size() == kMacPairs + 1);
  return counts && are_hex_groups(groups, 2);
}

bool begins_with_uuid(std::string_view text) {
  constexpr std::string_view kShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  static_assert(kShape.size() == kUuidBytes);
  if (text.size() < kUuidBytes || (text.size() > kUuidBytes && is_word(text[kUuidBytes])))
    return false;
  return std::ranges::equal(text.substr(0, kUuidBytes), kShape, [](char c, char shape) {
    return shape == 'x' ? is_hex(c) : c == shape;
  });
}

/// The longest beginning of which all characters satisfy `belongs`.
template <class Belongs>
std::string_view run_of(std::string_view text, Belongs belongs) {
  const auto end = std::ranges::find_if_not(text, belongs);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

/// A run of digits, colons and dots. If a word begins at its end, that part is left out.
std::string_view number_run(std::string_view text) {
  std::string_view run = run_of(text, [](char c) { return is_hex(c) || c == ':' || c == '.'; });
  const bool cuts_word = run.size() < text.size() && is_word(text[run.size()]);
  while (cuts_word && !run.empty() && is_word(run.back())) run.remove_suffix(1);
  return run;
}

bool is_persistent_name(std::string_view word) {
  return word.size() == kPersistentName.size() + 2 * kMacPairs &&
         word.starts_with(kPersistentName) &&
         std::ranges::all_of(word.substr(kPersistentName.size()), is_hex);
}

std::string_view cut(std::string_view& rest, std::size_t size) {
  const std::string_view head = rest.substr(0, size);
  rest.remove_prefix(size);
  return head;
}

template <class Bytes>
bool parse(int family, std::string_view text, Bytes& bytes) {
  return ::inet_pton(family, std::string(text).c_str(), bytes.data()) == 1;
}

std::string grouped(std::string_view digits, std::size_t group_digits, std::string_view separator) {
  std::string text;
  for (std::size_t at = 0; at < digits.size(); at += group_digits) {
    if (at != 0) text += separator;
    text += digits.substr(at, group_digits);
  }
  return text;
}

std::string text_of(const Ipv6& bytes, bool in_full) {
  std::string digits;
  for (const unsigned char byte : bytes) digits += fmt::format("{:02x}", byte);
  if (in_full) return grouped(digits, 4, ":");
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

void put_number(Ipv6& bytes, std::size_t from, std::size_t to, std::uint64_t number) {
  for (std::size_t i = to; i > from; --i, number >>= 8U)
    bytes[i - 1] = static_cast<unsigned char>(number & 0xffU);
}

bool is_ipv4_mapped(const Ipv6& bytes) {
  constexpr Ipv6 kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(bytes.begin(), bytes.begin() + 12, kPrefix.begin());
}

/// Whether this is zero, loopback or multicast.
bool is_same_everywhere(const Ipv6& bytes) {
  const bool only_last =
      std::all_of(bytes.begin(), bytes.end() - 1, [](unsigned char byte) { return byte == 0; });
  return bytes[0] == 0xff || (only_last && bytes[15] <= 1);
}

bool is_same_everywhere(const Ipv4& bytes) {
  // 0 is any address, 127 loopback. Above the multicast addresses are reserved ones, netmasks, and
  // broadcast.
  constexpr unsigned kFirstMulticast = 224;
  return bytes[0] == 0 || bytes[0] == 127 || bytes[0] >= kFirstMulticast;
}

bool is_link_local(const Ipv4& bytes) { return bytes[0] == 169 && bytes[1] == 254; }

bool is_link_local(const Ipv6& bytes) { return bytes[0] == 0xfe && (bytes[1] & 0xc0U) == 0x80; }

}  // namespace

std::uint64_t Placeholders::number(Counters& counters, std::string key) {
  return counters.emplace(std::move(key), counters.size() + 1).first->second;
}

std::string Placeholders::text(std::string_view original, bool has_versions) {
  std::string result;
  while (!original.empty()) result += take(original, has_versions);
  return result;
}

std::string Placeholders::take(std::string_view& rest, bool has_versions) {
  if (begins_with_uuid(rest)) {
    const auto count = number(uuids_, digits_of(cut(rest, kUuidBytes)));
    return fmt::format("00000000-0000-0000-0000-{:012x}", count);
  }
  const std::string_view dashed =
      run_of(rest.substr(0, kLongestPairs + 1), [](char c) { return is_hex(c) || c == '-'; });
  if (has_pairs(dashed, '-')) return pairs(cut(rest, dashed.size()), '-');
  const std::string_view word = run_of(rest, is_word);
  if (word.size() == kPlainDigits && std::ranges::all_of(word, is_hex) && !is_void(word))
    return fmt::format("{:032x}", number(uuids_, digits_of(cut(rest, word.size()))));
  if (const std::string_view run = number_run(rest); !run.empty())
    return numbers(cut(rest, run.size()), has_versions);
  if (!is_persistent_name(word))
    return std::string(cut(rest, std::max<std::size_t>(word.size(), 1)));
  const std::string digits = digits_of(cut(rest, word.size()).substr(kPersistentName.size()));
  return std::string(kPersistentName) + mac(digits, "");
}

/// Replaces addresses in a run, which may be an address or contain some: "10.0.0.1:4711",
/// "10.0.0.1::10.0.0.254:".
std::string Placeholders::numbers(std::string_view run, bool has_versions) {
  if (std::string replaced = address(run); !replaced.empty()) return replaced;
  const std::size_t end = run.find_last_not_of(".:") + 1;
  if (std::string replaced = address(run.substr(0, end)); !replaced.empty())
    return replaced + std::string(run.substr(end));
  return has_versions ? std::string(run) : dotted_quads(run);
}

/// Empty if the text is no address, or none of a kind with colons.
std::string Placeholders::address(std::string_view text) {
  constexpr std::size_t kGuidDigits = 4;
  if (text.find(':') == std::string_view::npos) return "";
  if (has_pairs(text, ':')) return pairs(text, ':');
  const auto groups = split(text, ':');
  if (groups.size() == 4 && are_hex_groups(groups, kGuidDigits))
    return interface(digits_of(text), kGuidDigits);
  return ipv6(text);
}

std::string Placeholders::pairs(std::string_view text, char separator) {
  if (is_void(text)) return std::string(text);
  const std::string digits = digits_of(text);
  const std::string_view between(&separator, 1);
  constexpr std::size_t kMacDigits = 2 * kMacPairs;
  constexpr std::size_t kEuiDigits = 2 * kEuiPairs;
  if (digits.size() == kMacDigits) return mac(digits, between);
  if (digits.size() == kMacDigits + 2)  // with PXE's type of hardware before it
    return digits.substr(0, 2) + separator + mac(digits.substr(2), between);
  const std::string zeros(digits.size() - kEuiDigits, '0');
  const std::string end = digits_of(interface(digits.substr(zeros.size()), 2));
  return grouped(zeros + end, 2, between);
}

std::string Placeholders::mac(std::string_view digits, std::string_view separator) {
  if (is_void(digits)) return grouped(digits, 2, separator);
  // 02: a locally administered address, which no manufacturer assigns.
  return grouped(fmt::format("02{:010x}", number(macs_, std::string(digits))), 2, separator);
}

std::string Placeholders::interface(std::string_view digits, std::size_t group_digits) {
  if (is_void(digits)) return grouped(digits, group_digits, ":");
  const auto count = number(interfaces_, std::string(digits));
  return grouped(fmt::format("{:016x}", count), group_digits, ":");
}

std::string Placeholders::ipv6(std::string_view text) {
  constexpr std::size_t kFullBytes = 39;
  constexpr std::size_t kPrefixBytes = 8;
  Ipv6 bytes{};
  if (!parse(AF_INET6, text, bytes)) return "";
  if (is_same_everywhere(bytes)) return std::string(text);
  const bool in_full = text.size() == kFullBytes;
  if (is_ipv4_mapped(bytes)) {
    Ipv4 tail{};
    const auto quad = fmt::format("{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
    parse(AF_INET, ipv4(quad), tail);
    std::ranges::copy(tail, bytes.begin() + 12);
    return text_of(bytes, in_full);
  }
  const std::string digits = digits_of(text_of(bytes, /*in_full=*/true));
  const std::string end = digits.substr(2 * kPrefixBytes);
  if (!is_void(end)) put_number(bytes, kPrefixBytes, bytes.size(), number(interfaces_, end));
  if (!is_link_local(bytes)) {
    const auto subnet = number(subnets6_, digits.substr(0, 2 * kPrefixBytes));
    const bool is_local = (bytes[0] & 0xfeU) == 0xfc;  // RFC 4193
    // fd00:: and 2001:db8::, with the number of the subnet.
    put_number(bytes, 0, kPrefixBytes,
               (is_local ? 0xfd00ULL << 48U : 0x20010db8ULL << 32U) + subnet);
  }
  return text_of(bytes, in_full);
}

std::string Placeholders::ipv4(std::string_view text) {
  Ipv4 bytes{};
  if (!parse(AF_INET, text, bytes) || is_same_everywhere(bytes)) return std::string(text);
  const std::string prefix(text.substr(0, text.rfind('.')));
  const auto subnet = number(subnets4_, prefix);
  if (is_link_local(bytes)) return fmt::format("169.254.{}.{}", subnet & 0xffU, bytes[3]);
  return fmt::format("10.{}.{}.{}", subnet >> 8U & 0xffU, subnet & 0xffU, bytes[3]);
}

std::string Placeholders::dotted_quads(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const auto run = run_of(text, [](char c) { return c != ':'; });
    const std::size_t end = run.find_last_not_of('.') + 1;
    result += ipv4(run.substr(0, end));
    result += run.substr(end);
    text.remove_prefix(run.size());
    if (!text.empty()) result += cut(text, 1);
  }
  return result;
}

}  // namespace hbmwire::tools::doctor
