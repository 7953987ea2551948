// SPDX-License-Identifier: MIT
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"

#include "tools/common/failure.hpp"

namespace hbmwire::tools::doctor {

/// The most addresses of one machine that are tried. A machine with NICs for eight rails and two
/// families has so many.
inline constexpr std::size_t kMostAddresses = 16;

/// An IPv4 or IPv6 address and a port, for connect(2).
struct IpAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  std::string host;  ///< "192.0.2.1", "fd00::1", "fe80::1%eth0": the text of getnameinfo(3), never
                     ///< foreign
  std::uint16_t port = 0;

  [[nodiscard]] bool is_ipv6() const noexcept { return storage.ss_family == AF_INET6; }

  [[nodiscard]] const sockaddr* get() const noexcept;
  void set_port(std::uint16_t number) noexcept;
  [[nodiscard]] std::string text() const;  ///< "192.0.2.1:7700", "[fd00::1]:7700"

  bool operator==(const IpAddress& other) const noexcept {
    return host == other.host && port == other.port;
  }
};

/// The address, if `host` is one in numbers; empty for a name, which is not looked up.
[[nodiscard]] std::optional<IpAddress> ip_address(const std::string& host, std::uint16_t port);

/// The addresses in texts such as "192.0.2.1:7700" and "[fd00::1]:7700". The texts may be foreign:
/// leaves out other texts, duplicates, and addresses beyond kMostAddresses.
[[nodiscard]] std::vector<IpAddress> ip_addresses(std::span<const std::string> texts);

/// The address of a received datagram or message, as recvmsg(2) returned it. `host` is empty if the
/// family is another one.
[[nodiscard]] IpAddress ip_address_of(const sockaddr* address, socklen_t length);

/// The answer of the name service.
struct NameAnswer {
  std::vector<IpAddress> addresses;  ///< in the order of getaddrinfo(3), at most kMostAddresses
  std::string why_not;               ///< the reason why there is none; empty otherwise
  std::chrono::milliseconds took{0};
};

/// Runs getaddrinfo(3) in a process of its own (Child), since it can hang for half a minute and
/// cannot be cancelled. As for Child, the caller must not have opened a device. An address in
/// numbers needs no process. Errors: interrupted; no process.
Outcome<NameAnswer> look_up_name(const std::string& host, std::uint16_t port, const Wait& wait);

}  // namespace hbmwire::tools::doctor
