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

/// Whether TCP reaches another machine, before anything is known of that: by each of its addresses.
namespace hbmwire::tools::doctor {

/// One connect(2).
struct TcpAttempt {
  enum class Reach : std::uint8_t {
    reached,
    refused,      ///< ECONNREFUSED by a TCP reset: the machine is there, and no program listens
    no_answer,    ///< timed out
    unreachable,  ///< any other error; `error`, `local` and `told` say which
  };

  IpAddress address;
  Reach reach = Reach::no_answer;
  int error = 0;                    ///< errno, unless it was reached or gave no answer
  bool local = false;               ///< connect(2) failed at once: this machine sent nothing
  std::optional<Unreachable> told;  ///< the ICMP message that ended it
  std::chrono::milliseconds took{0};
};

/// All that was tried of one machine.
struct TcpWay {
  /// Whose addresses they are, by which a failed one is judged.
  enum class Addresses : std::uint8_t {
    of_a_name,  ///< any one of them does
    of_nics,    ///< each one counts. A refusal is an answer: the server may listen on another
  };

  Addresses addresses = Addresses::of_a_name;
  std::string name;                  ///< as typed; empty: of NICs
  NameAnswer look_up;                ///< of the name
  std::vector<TcpAttempt> attempts;  ///< in the order of the addresses

  /// The first address that was reached, in getaddrinfo(3)'s order; null without one. Valid as long
  /// as this.
  [[nodiscard]] const IpAddress* usable() const noexcept;
};

/// Looks the name up (at most 6 s), and connects to all of its addresses at once. Each connection
/// is closed as soon as it is there. It takes 2 s at most where an address is reached, else 3.5 s,
/// since ARP and ND give up an address after 3 s; all of it no longer than `wait`. The process has
/// opened no device: look_up_name(). Errors: interrupted; no descriptors; no process.
Outcome<TcpWay> try_name(const std::string& host, std::uint16_t port, const Wait& wait);

/// The same for addresses that the server told, without a look-up and without a process.
Outcome<TcpWay> try_addresses(std::vector<IpAddress> addresses, const Wait& wait);

/// Findings of the checks "way", one for each address, and "way-name", of a name that has no
/// address or was slow to be looked up.
[[nodiscard]] std::vector<Finding> findings_of(const TcpWay& way);

}  // namespace hbmwire::tools::doctor
