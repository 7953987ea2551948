// SPDX-License-Identifier: MIT
#include "group/meeting_name.hpp"

#include <algorithm>

namespace hbmwire::detail {

namespace {

constexpr std::uint16_t kEtcdPort = 2379;  // etcd's default port for clients
constexpr std::size_t kMaxNameBytes = 200;
constexpr std::size_t kMaxPathBytes = 4095;  // PATH_MAX without the NUL

tl::unexpected<Error> refuse_meeting(std::string_view text, const char* why) {
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::configure, why, text, Hint::group_launcher));
}

/// The place behind "tcp://" or "etcd://".
Result<HostPort> server_of(std::string_view text, std::string_view server,
                           std::optional<std::uint16_t> default_port) {
  const auto at = split_host_port(server, default_port);
  // The scheme was taken off already; split_host_port() would accept a second one.
  if (!at || server.find('/') != std::string_view::npos)
    return refuse_meeting(text, "this meeting needs a host and a port from 1 to 65535");
  // The host becomes a part of a URL, where these characters begin something else: a user, a query.
  if (at->host.find_first_of("@?#\\") != std::string::npos)
    return refuse_meeting(text, "a host has none of @ ? # \\, and a meeting has no user");
  return *at;
}

Result<MeetingName> parse_etcd_meeting(std::string_view text, std::string_view rest, bool tls) {
  const std::size_t slash = rest.find('/');
  const std::string_view name =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  if (name.empty() || name.size() > kMaxNameBytes)
    return refuse_meeting(text, "an etcd meeting needs a name of 1 to 200 bytes behind the port");
  MeetingName meeting;
  HBMWIRE_TRY_ASSIGN(meeting.at, server_of(text, rest.substr(0, slash), kEtcdPort));
  meeting.kind = MeetingName::Kind::etcd;
  meeting.text = std::string(text);
  meeting.path = std::string(name);
  meeting.tls = tls;
  return meeting;
}

}  // namespace

Result<MeetingName> parse_meeting(std::string_view text) {
  const auto behind = [&](std::string_view scheme) -> std::optional<std::string_view> {
    if (!text.starts_with(scheme)) return std::nullopt;
    return text.substr(scheme.size());
  };
  if (text.find('\0') != std::string_view::npos)
    return refuse_meeting(text, "a meeting has no NUL byte");
  // By members, since GCC 12 takes what a designated initializer leaves out for uninitialized.
  MeetingName name;
  name.text = std::string(text);
  if (text == "pmix") {
    name.kind = MeetingName::Kind::pmix;
    name.text = "PMIx";
    return name;
  }
  if (const auto server = behind("tcp://")) {
    HBMWIRE_TRY_ASSIGN(name.at, server_of(text, *server, std::nullopt));
    return name;
  }
  if (const auto path = behind("file://")) {
    if (!path->starts_with('/') || path->ends_with('/') || path->size() > kMaxPathBytes)
      return refuse_meeting(text, "a file meeting needs an absolute path, as in file:///tmp/group");
    name.kind = MeetingName::Kind::file;
    name.path = std::string(*path);
    return name;
  }
  if (const auto rest = behind("etcd://")) return parse_etcd_meeting(text, *rest, false);
  if (const auto rest = behind("etcds://")) return parse_etcd_meeting(text, *rest, true);
  return refuse_meeting(text,
                        "a meeting is tcp://host:port, pmix, file:///path, "
                        "etcd://host:port/name or env");
}

}  // namespace hbmwire::detail
