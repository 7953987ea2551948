// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulation/tool/sysfs_tree.hpp"

namespace hbmwire::emulation::tool {

/// What the command line says of how NICs behave, as it was typed.
struct BehaviourArguments {
  std::string async{};                    ///< --async: a time, or empty when it was not given
  std::optional<std::uint64_t> seed{};    ///< --seed
  std::vector<std::string> rate{};        ///< --rate: [emuN=]RATE, a later one overrules
  std::vector<std::string> latency{};     ///< --latency: [emuN=]TIME
  std::vector<std::string> like{};        ///< --like-hardware: flush, scatter, relaxed, all
  std::vector<std::string> without{};     ///< --without: [emuN=]dmabuf, atomics or last_wqe
  std::vector<std::string> limits{};      ///< --limits: [emuN=]OBJECT=N[,OBJECT=N]...
  std::vector<std::string> link_layer{};  ///< --link-layer: [emuN=]infiniband or ethernet
};

/// --async without a time.
inline constexpr const char* kDefaultAsync = "50us";

/// The words that --like-hardware, --without and --link-layer take.
std::vector<std::string_view> trait_names();
std::vector<std::string_view> feature_names();
std::vector<std::string_view> link_layer_names();

/// Puts them into `hardware`. A sentence when one is not of its form, or names a NIC that is not
/// there.
Status apply(const BehaviourArguments& arguments, Hardware& hardware);

/// What is unlike the default, for people: ", asynchronous (up to 50us)"; empty when nothing is.
std::string in_words(const Hardware& hardware);

}  // namespace hbmwire::emulation::tool
