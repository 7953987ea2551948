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
  /// `address`: "" for every address, IPv4 and IPv6. Port 0 takes a free one. Errors:
  /// Stage::connect (port in use).
  static Result<ControlListener> listen(const std::string& address, std::uint16_t port);

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port(); }

  /// A peer that has connected, got this side's preamble, and begun to say what it wants; or one
  /// that speaks another protocol or version, or has left, as ControlChannel::accept() then tells.
  /// Connections that say less are closed after 5 s, with a warning in the log, and keep no other
  /// one waiting.
  struct Accepted {
    Fd socket;
    std::string peer;  ///< "192.0.2.1:4711"
  };

  /// Out of descriptors, peers are refused with that reason, which is logged as well.
  Result<Accepted> accept(const Wait& wait);

 private:
  struct Pending {
    Fd socket;
    std::string peer;
    Deadline deadline;
  };

  explicit ControlListener(tcp::Listener listener) noexcept : listener_(std::move(listener)) {}

  Result<void> take_connection();
  void tell(const Error& shortage);
  static void refuse(Fd socket, std::string peer, const Error& why);

  tcp::Listener listener_;
  std::optional<Error> told_;  // why no connection can be taken, until one is
  std::vector<Pending> pending_;
};

}  // namespace hbmwire::tools::wire
