// SPDX-License-Identifier: MIT
#include "hbmwire/host_port.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

namespace hbmwire {

namespace {

constexpr std::string_view kTcpScheme = "tcp://";

bool is_ipv6(std::string_view text) {
  in6_addr unused{};
  // The name of an interface after "%" is looked up only when the address is used.
  const std::size_t percent = text.find('%');
  if (percent != std::string_view::npos && percent + 1 == text.size()) return false;
  return ::inet_pton(AF_INET6, std::string(text.substr(0, percent)).c_str(), &unused) == 1;
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c != 0x7f; });
}

/// A host, and the digits after its colon; no value without a colon.
struct Parts {
  std::string_view host;
  std::optional<std::string_view> digits = {};
  const char* mistake = nullptr;
};

Parts bracketed_parts(std::string_view text) {
  const std::size_t end = text.find(']');
  const std::string_view rest = end == std::string_view::npos ? "" : text.substr(end + 1);
  if (end == std::string_view::npos || (!rest.empty() && rest.front() != ':'))
    return {.host = {}, .mistake = "an IPv6 address with its port is [IPV6]:PORT"};
  Parts parts{.host = text.substr(1, end - 1)};
  if (!rest.empty()) parts.digits = rest.substr(1);
  if (!is_ipv6(parts.host)) parts.mistake = "the text in the brackets is no IPv6 address";
  return parts;
}

Parts parts_of(std::string_view text) {
  if (text.starts_with('[')) return bracketed_parts(text);
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {.host = text};
  if (colon != text.rfind(':')) {
    if (is_ipv6(text)) return {.host = text};
    return {.host = {},
            .mistake = "it is no IPv6 address, and a host has one colon before its port"};
  }
  return {.host = text.substr(0, colon), .digits = text.substr(colon + 1)};
}

std::optional<std::uint16_t> port_of(std::string_view digits) {
  std::uint16_t port = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, port);
  if (failure != std::errc{} || stop != end || port == 0) return std::nullopt;
  return port;
}

}  // namespace

Result<HostPort> split_host_port(std::string_view text, std::optional<std::uint16_t> default_port) {
  const auto wrong = [text](const char* why) {
    return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::connect, why,
                                          is_printable(text) ? text : "the address"));
  };
  std::string_view place = text;
  if (place.starts_with(kTcpScheme)) {
    place.remove_prefix(kTcpScheme.size());
    if (place.ends_with('/')) place.remove_suffix(1);
  }
  if (place.find("://") != std::string_view::npos)
    return wrong("an address is HOST:PORT, with tcp:// before it or nothing");
  if (!is_printable(place)) return wrong("an address has no blanks and no control characters");
  const Parts parts = parts_of(place);
  if (parts.mistake != nullptr) return wrong(parts.mistake);
  if (parts.host.empty()) return wrong("the host is missing: an address is HOST:PORT");
  if (place.find('/') != std::string_view::npos) return wrong("an address has no path behind it");
  if (!parts.digits) {
    if (default_port) return HostPort{std::string(parts.host), *default_port};
    return wrong(parts.host.find(':') != std::string_view::npos
                     ? "the port is missing: an IPv6 address with its port is [IPV6]:PORT"
                     : "the port is missing: an address is HOST:PORT");
  }
  const auto port = port_of(*parts.digits);
  if (!port) return wrong("a port is a number from 1 to 65535");
  return HostPort{std::string(parts.host), *port};
}

std::string join_host_port(std::string_view host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  std::string text = bare_ipv6 ? "[" : "";
  text += host;
  text += bare_ipv6 ? "]:" : ":";
  return text + std::to_string(port);
}

}  // namespace hbmwire
