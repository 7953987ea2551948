// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hbmwire/deadline.hpp"
#include "hbmwire/error.hpp"
#include "hbmwire/group.hpp"
#include "hbmwire/host_port.hpp"

namespace hbmwire::detail {

/// A place where rank 0 leaves the addresses of its meeting point, and where the others find them:
/// an address that all know, PMIx, a file, etcd. Used by one thread at a time. Addresses that it
/// has left in a file or in etcd go when it is destroyed.
class MeetingPlace {
 public:
  MeetingPlace() = default;
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  virtual ~MeetingPlace() = default;

  /// The place, for errors: "file:///tmp/g", "tcp://node1:7000", "PMIx".
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;

  /// Where the meeting point is to listen; port 0: any.
  [[nodiscard]] virtual HostPort listen_at() const { return {}; }

  /// Claims the meeting point for a process that was given no rank. True: this process has it, as
  /// the first one that asked, until this object goes; false: another one has. A place that can't
  /// tell gives an error (Errc::invalid_argument, Hint::group_launcher). Does not wait for others.
  virtual Result<bool> claim(const Wait& wait) = 0;

  /// Leaves the addresses of the meeting point, the most useful first, instead of those that an
  /// earlier one has left.
  virtual Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) = 0;

  /// The addresses that were left, as of now; empty: none yet. Waits no longer than it takes to
  /// ask.
  virtual Result<std::vector<std::string>> look(const Wait& wait) = 0;

  /// How often keep() is to be called after leave(), so that what was left stays; none: never.
  [[nodiscard]] virtual std::optional<std::chrono::milliseconds> keep_every() const noexcept {
    return {};
  }

  /// Renews what was left. Errors: that is impossible now; the caller tries again later.
  virtual Result<void> keep() { return {}; }
};

/// This process' part in its group, by options, settings and the launcher.
struct Launch {
  std::optional<std::uint32_t> rank;  // none: given by the meeting point
  std::uint32_t size = 1;
  std::string launcher;  // LaunchFacts::launcher
  std::unique_ptr<MeetingPlace> place;
};

/// Errors: as Group::create(), Stage::configure.
Result<Launch> find_launch(const GroupOptions& options, const Wait& wait);

}  // namespace hbmwire::detail
