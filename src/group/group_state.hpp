// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hbmwire/group.hpp"

#include "base/forks.hpp"
#include "group/meeting_place.hpp"
#include "group/meeting_point.hpp"
#include "group/member.hpp"
#include "group/peers.hpp"

namespace hbmwire::detail {

/// A rank of a group. Its members are destroyed in reverse order: endpoints, then the channel to
/// the meeting point, then the meeting point itself, if this rank has it.
struct GroupState {
  /// Meets under a new epoch. Errors: as Group::create().
  Result<void> meet(const Wait& wait);

  /// The bytes that all ranks give; nothing for ranks that have gone. Errors: as
  /// Group::exchange() and exchange_among_present().
  Result<std::vector<std::optional<std::vector<std::byte>>>> exchange(
      std::span<const std::byte> mine, bool among_present, const Wait& wait);

  /// Errors: this process is a child by fork(2).
  [[nodiscard]] Result<void> check_process() const;

  MadeHere made;
  std::string launcher;
  wire::GroupHello hello;               // its rank is none until the meeting point has given one
  std::unique_ptr<MeetingPoint> point;  // in rank 0 alone
  std::unique_ptr<MeetingPlace> place;  // in the other ranks; the meeting point has rank 0's
  std::unique_ptr<Member> member;
  std::unique_ptr<Peers> peers;
  wire::Joined joined;
};

/// The error of impossible options or arguments.
inline tl::unexpected<Error> refuse_options(const char* why, std::string_view which) {
  return tl::make_unexpected(make_error(Errc::invalid_argument, Stage::configure, why, which));
}

/// Implements Group::broadcast(), with its errors.
Result<void> broadcast(GroupState& group, const Slice& memory, std::uint32_t root, const Wait& wait,
                       const BroadcastOptions& options);

}  // namespace hbmwire::detail
