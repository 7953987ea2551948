// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/fd.hpp"
#include "hbmwire/low_level/tcp.hpp"

namespace hbmwire::tools::wire {

/// A listening TCP socket.
class ControlListener {
 public:
  /// `address`: "" means every address, IPv4 and IPv6. Port 0 means a free port. Errors:
  /// Stage::connect (port in use).
  static Result<ControlListener> listen(const std::string& address, std::uint16_t port);

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port(); }

  /// A peer that has connected, received this side's preamble, and begun to send its first message.
  /// It may also speak another protocol or version, or have disconnected, which
  /// ControlChannel::accept() then reports. Connections that send less are closed after 5 s, with a
  /// warning in the log, and do not delay others.
  struct Accepted {
    Fd socket;
    std::string peer;  ///< "192.0.2.1:4711"
  };

  /// Without free descriptors, refuses peers with that reason, which is logged as well.
  Result<Accepted> accept(const Wait& wait);

 private:
  struct Pending {
    Fd socket;
    std::string peer;
    Deadline deadline;
  };

  explicit ControlListener(tcp::Listener listener) noexcept : listener_(std::move(listener)) {}

  Result<void> take_connection();
  void tell(const Error& shortage);  // to the log, each cause once
  static void refuse(Fd socket, std::string peer, const Error& why);

  tcp::Listener listener_;
  // The last shortage that tell() logged; empty after the next success.
  std::optional<Error> told_;
  std::vector<Pending> pending_;
};

}  // namespace hbmwire::tools::wire
