// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// The command line's options for the behaviour of NICs, as typed.
struct BehaviourArguments {
  std::string async{};                    ///< --async: a time; empty: not given
  std::optional<std::uint64_t> seed{};    ///< --seed
  std::vector<std::string> rate{};        ///< --rate: [emuN=]RATE; the last one counts
  std::vector<std::string> latency{};     ///< --latency: [emuN=]TIME
  std::vector<std::string> like{};        ///< --like-hardware: flush, scatter, relaxed, all
  std::vector<std::string> without{};     ///< --without: [emuN=]dmabuf, atomics or last_wqe
  std::vector<std::string> limits{};      ///< --limits: [emuN=]OBJECT=N[,OBJECT=N]...
  std::vector<std::string> link_layer{};  ///< --link-layer: [emuN=]infiniband or ethernet
};

/// The time of --async without a value.
inline constexpr const char* kDefaultAsync = "50us";

/// The words that --like-hardware, --without and --link-layer accept.
std::vector<std::string_view> trait_names();
std::vector<std::string_view> feature_names();
std::vector<std::string_view> link_layer_names();

/// Applies the options to `hardware`. Returns a sentence if one has a wrong form or names a NIC
/// that does not exist.
Status apply(const BehaviourArguments& arguments, Hardware& hardware);

/// Describes the differences from the default for people: ", asynchronous (up to 50us)". Empty if
/// there are none.
std::string in_words(const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
