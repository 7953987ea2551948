// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"

#include "tools/common/failure.hpp"
#include "tools/doctor/checks/finding.hpp"
#include "tools/doctor/remote/ip_address.hpp"
#include "tools/doctor/remote/unreachable.hpp"

/// Tests whether TCP reaches another machine by each of its addresses, before anything else is
/// known about it.
namespace hbmwire::tools::doctor {

/// One connect(2).
struct TcpAttempt {
  enum class Reach : std::uint8_t {
    reached,
    refused,      ///< ECONNREFUSED by a TCP reset: the machine is reachable, but no program listens
    no_answer,    ///< timed out
    unreachable,  ///< any other error; see `error`, `local` and `told`
  };

  IpAddress address;
  Reach reach = Reach::no_answer;
  int error = 0;                    ///< errno, unless it was reached or timed out
  bool local = false;               ///< connect(2) failed at once: this machine sent nothing
  std::optional<Unreachable> told;  ///< the ICMP message that ended it
  std::chrono::milliseconds took{0};
};

/// All connection attempts to one machine.
struct TcpWay {
  /// The kind of the addresses, which decides how a failed one is judged.
  enum class Addresses : std::uint8_t {
    of_a_name,  ///< one that works is enough
    of_nics,    ///< each one counts; a refusal is an answer, since the server may listen on another
                ///< address
  };

  Addresses addresses = Addresses::of_a_name;
  std::string name;                  ///< as typed; empty for addresses of NICs
  NameAnswer look_up;                ///< the result of the name service
  std::vector<TcpAttempt> attempts;  ///< in the order of the addresses

  /// The first address that was reached, in the order of getaddrinfo(3); null if none was. Valid as
  /// long as this object.
  [[nodiscard]] const IpAddress* usable() const noexcept;
};

/// Looks the name up (at most 6 s), and connects to all of its addresses at the same time. Each
/// connection is closed as soon as it exists. This takes at most 2 s if an address is reached, and
/// 3.5 s otherwise, since ARP and ND give up after 3 s; it never exceeds `wait`. The process must
/// not have opened a device (look_up_name()). Errors: interrupted; no descriptors; no process.
Outcome<TcpWay> try_name(const std::string& host, std::uint16_t port, const Wait& wait);

/// Like try_name(), for addresses that the server sent: there is no look-up, and no process.
Outcome<TcpWay> try_addresses(std::vector<IpAddress> addresses, const Wait& wait);

/// Findings of the check "way", one for each address, and of "way-name", if the name has no address
/// or its look-up was slow.
[[nodiscard]] std::vector<Finding> findings_of(const TcpWay& way);

}  // namespace hbmwire::tools::doctor
