// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "emulation/tool/behaviours.hpp"
#include "emulation/tool/links.hpp"
#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// The parsed command line.
struct Options {
  Hardware hardware;
  bool nics_given = false;  ///< given on the command line: an existing node must then match
  bool ports_given = false;
  std::array<bool, kCardFamilies.size()> cards_given{};  ///< for each family
  bool kind_given = false;
  bool bar_given = false;
  bool keep_given = false;
  BehaviourArguments behaviours;
  bool behaviours_given = false;
  std::string node;              ///< --name, or empty
  std::string fabric;            ///< --fabric, or empty
  std::string faults;            ///< the plan itself, even if it came from @FILE
  std::filesystem::path parent;  ///< holds hbmwire-<uid>/
  bool namespaces = true;
  bool quiet = false;
  std::vector<LinkChange> links;
  /// Null if there are only `links`, which change a running node. NULL-terminated; points into the
  /// argv that was parsed.
  char** command = nullptr;
};

/// Returns the options, or the exit code if nothing is left to do (help was shown, or the command
/// line is wrong).
std::variant<Options, int> parse_options(int argc, char** argv);

}  // namespace hbmwire::emulation::tool
