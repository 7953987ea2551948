// SPDX-License-Identifier: MIT
#pragma once

#include "group/meeting_name.hpp"
#include "group/meeting_place.hpp"

namespace hbmwire::detail {

/// An address that all processes know, at which rank 0 listens: leave() has nothing to do.
class AddressPlace final : public MeetingPlace {
 public:
  explicit AddressPlace(MeetingName meeting);

  [[nodiscard]] const std::string& name() const noexcept override { return meeting_.text; }

  /// All addresses of the machine, because the name of a service or a container may lead to none of
  /// them; the host's address alone if it is a loopback address.
  [[nodiscard]] HostPort listen_at() const override;

  /// Always an error: an address can't number processes.
  Result<bool> claim(const Wait& wait) override;
  Result<void> leave(const std::vector<std::string>& addresses, const Wait& wait) override;
  Result<std::vector<std::string>> look(const Wait& wait) override;

 private:
  MeetingName meeting_;
};

}  // namespace hbmwire::detail
