// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "hbmwire/error.hpp"
#include "hbmwire/group.hpp"

#include "base/every_setting.hpp"

namespace hbmwire::detail {

/// A variable of the environment; one that is set to nothing is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;

/// This process' place in its job, as PMIx tells it.
struct PmixJob {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};

/// Asks PMIx. Errc::not_found: this machine, or this build, has no library of it.
using AskPmix = std::function<Result<PmixJob>()>;

/// Facts about this process, before a meeting place is made of them.
struct LaunchFacts {
  std::optional<std::uint32_t> rank;
  std::optional<std::uint32_t> size;
  std::string meeting;   // as GroupOptions::meeting, never "env"; empty: not found
  std::string launcher;  // the source of the rank; if no source gave it, of the size
};

/// Looks in the options, the settings, PMIx and the launchers' variables, in this order, for each
/// of rank, size and meeting by itself. Variables of a source that is not needed are not looked at.
/// Errors: Stage::configure, Hint::group_launcher: a variable that is needed has no meaning, or its
/// companion is missing; PMIx' errors.
Result<LaunchFacts> find_facts(const GroupOptions& options, const GroupSettings& settings,
                               const Variables& variables, const AskPmix& ask_pmix);

}  // namespace hbmwire::detail
