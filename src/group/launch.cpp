// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <utility>

#include "base/every_setting.hpp"
#include "base/guarded.hpp"
#include "group/address_place.hpp"
#include "group/etcd_place.hpp"
#include "group/file_place.hpp"
#include "group/launch_environment.hpp"
#include "group/meeting_name.hpp"
#include "group/meeting_place.hpp"
#include "group/pmix_place.hpp"

namespace hbmwire::detail {

namespace {

/// Reads the variables of launchers; every_setting() reads the library's own.
std::optional<std::string> launcher_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

tl::unexpected<Error> no_launcher(const char* why, std::string_view setting) {
  return tl::make_unexpected(
      make_error(Errc::not_found, Stage::configure, why, setting, Hint::group_launcher));
}

tl::unexpected<Error> no_such_group(const char* why, std::string_view subject) {
  return tl::make_unexpected(
      make_error(Errc::invalid_argument, Stage::configure, why, subject, Hint::group_launcher));
}

Result<void> check_numbers(const LaunchFacts& facts) {
  constexpr std::uint32_t kMost = 4096;  // GroupOptions::size
  if (!facts.size)
    return no_launcher("nothing says how many processes there are", "HBMWIRE_GROUP_SIZE");
  if (*facts.size == 0 || *facts.size > kMost)
    return no_such_group("a group has 1 to 4096 processes", "size " + std::to_string(*facts.size));
  if (facts.rank && *facts.rank >= *facts.size) {
    return no_such_group(
        "a rank is less than the size of the group",
        "rank " + std::to_string(*facts.rank) + ", size " + std::to_string(*facts.size));
  }
  return {};
}

Result<std::unique_ptr<MeetingPlace>> make_place(MeetingName meeting, const Wait& wait) {
  switch (meeting.kind) {
    case MeetingName::Kind::address:
      return std::make_unique<AddressPlace>(std::move(meeting));
    case MeetingName::Kind::pmix:
      return PmixPlace::create(wait);
    case MeetingName::Kind::file:
      return FilePlace::create(std::move(meeting));
    case MeetingName::Kind::etcd:
      return EtcdPlace::create(std::move(meeting));
  }
  return no_such_group("there is no such meeting", meeting.text);
}

}  // namespace

Result<Launch> find_launch(const GroupOptions& options, const Wait& wait) {
  return guarded(Stage::configure, [&]() -> Result<Launch> {
    HBMWIRE_TRY_ASSIGN(const EverySetting settings, every_setting());
    HBMWIRE_TRY_ASSIGN(LaunchFacts facts, find_facts(options, settings.group, launcher_variable,
                                                     [&] { return pmix_job(wait); }));
    if (facts.meeting.empty())
      return no_launcher("nothing says where the processes meet", "HBMWIRE_GROUP");
    HBMWIRE_TRY_ASSIGN(MeetingName meeting, parse_meeting(facts.meeting));
    HBMWIRE_TRY(check_numbers(facts));
    if (!facts.rank && !meeting.gives_ranks())
      return no_launcher("nothing says which rank this process has", "HBMWIRE_GROUP_RANK");
    Launch launch{.rank = facts.rank,
                  .size = *facts.size,
                  .launcher = std::move(facts.launcher),
                  .place = nullptr};
    HBMWIRE_TRY_ASSIGN(launch.place, make_place(std::move(meeting), wait));
    return launch;
  });
}

}  // namespace hbmwire::detail
