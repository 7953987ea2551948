// SPDX-License-Identifier: MIT
#include "group/address_place.hpp"

#include <utility>

namespace hbmwire::detail {

namespace {

/// Whether only processes of this machine reach the host.
bool is_loopback_text(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

AddressPlace::AddressPlace(MeetingName meeting) : meeting_(std::move(meeting)) {}

HostPort AddressPlace::listen_at() const {
  return {.host = is_loopback_text(meeting_.at.host) ? meeting_.at.host : std::string(),
          .port = meeting_.at.port};
}

Result<bool> AddressPlace::claim(const Wait& /*wait*/) {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure,
                                        "an address gives no ranks, so each process needs its own",
                                        meeting_.text, Hint::group_launcher));
}

Result<void> AddressPlace::leave(const std::vector<std::string>& /*addresses*/,
                                 const Wait& /*wait*/) {
  return {};
}

Result<std::vector<std::string>> AddressPlace::look(const Wait& /*wait*/) {
  return std::vector<std::string>{join_host_port(meeting_.at.host, meeting_.at.port)};
}

}  // namespace hbmwire::detail
