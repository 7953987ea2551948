// SPDX-License-Identifier: MIT
#pragma once

#include "group/meeting_name.hpp"
#include "group/meeting_place.hpp"

namespace hbmwire::detail {

/// An address that all processes know: rank 0 listens there. Nothing has to be left.
class AddressPlace final : public MeetingPlace {
 public:
  explicit AddressPlace(MeetingName meeting);

  [[nodiscard]] const std::string& name() const noexcept override { return meeting_.text; }

  /// On all addresses of the machine, since a service's or a container's host name may be that of
  /// none; on the host's alone where that is a loopback address.
  [[nodiscard]] HostPort listen_at() const override;

  Result<bool> claim(const Wait& wait) override;
  Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) override;
  Result<std::vector<std::string>> look(const Wait& wait) override;

 private:
  MeetingName meeting_;
};

}  // namespace hbmwire::detail
