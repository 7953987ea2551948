// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/forks.hpp"
#include "group/etcd_requests.hpp"
#include "group/meeting_name.hpp"
#include "group/meeting_place.hpp"

namespace hbmwire::detail {

/// A key of etcd, which hangs on a lease of ten seconds, so nothing is left of a process that
/// is killed. The process that has made the key has the meeting point.
class EtcdPlace final : public MeetingPlace {
 public:
  /// Asks nothing of the server yet. Errors: Errc::not_found: there is no libcurl, or the build had
  /// no header of it.
  static Result<std::unique_ptr<MeetingPlace>> create(MeetingName meeting);

  EtcdPlace(MeetingName meeting, EtcdRequests requests);
  EtcdPlace(const EtcdPlace&) = delete;
  EtcdPlace& operator=(const EtcdPlace&) = delete;
  ~EtcdPlace() override;

  [[nodiscard]] const std::string& name() const noexcept override { return meeting_.text; }

  Result<bool> claim(const Wait& wait) override;

  /// Claims the place first, if that was not done. Errors: Errc::busy: another process has it, and
  /// keeps it for longer than the lease of a killed process lasts.
  Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) override;

  Result<std::vector<std::string>> look(const Wait& wait) override;

  [[nodiscard]] std::optional<std::chrono::milliseconds> keep_every() const noexcept override;

  /// Takes no longer than half a second if the server does not answer. If the lease has run out,
  /// makes the key anew, within two seconds.
  Result<void> keep() override;

 private:
  Result<bool> make_key(const Wait& wait);

  MeetingName meeting_;
  EtcdRequests requests_;
  MadeHere made_;
  std::optional<std::int64_t> lease_;
  bool has_key_ = false;
  std::string text_;  // as leave() has left it; empty: not yet
};

}  // namespace hbmwire::detail
