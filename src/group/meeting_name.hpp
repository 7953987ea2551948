// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hbmwire/error.hpp"
#include "hbmwire/host_port.hpp"

namespace hbmwire::detail {

/// A meeting as GroupOptions::meeting spells it, except "env", which names no place.
struct MeetingName {
  enum class Kind : std::uint8_t { address, pmix, file, etcd };

  Kind kind = Kind::address;
  std::string text;       // as it was spelt, for errors
  HostPort at = {};       // address: where rank 0 listens; etcd: its server
  std::string path = {};  // file: its path; etcd: the name below which the keys are
  bool tls = false;       // etcds://

  /// Whether the place there can number the processes in the order in which they come.
  [[nodiscard]] bool gives_ranks() const noexcept {
    return kind == Kind::file || kind == Kind::etcd;
  }
};

/// Errors: Errc::invalid_argument, Stage::configure, the text as subject.
Result<MeetingName> parse_meeting(std::string_view text);

}  // namespace hbmwire::detail
