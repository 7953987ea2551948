// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/common/interrupt.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/plan.hpp"

namespace hbmwire::tools::doctor {

/// The default port of `doctor --serve`. The port before it is the default of `server`.
inline constexpr std::uint16_t kServePort = 20001;

struct ServeOptions {
  std::string bind;                        ///< empty means all addresses
  std::uint16_t port = kServePort;         ///< 0 means a free port
  std::chrono::minutes time{60};           ///< the server ends after this time
  Selection selection;                     ///< the devices of this machine to offer
  std::chrono::milliseconds step{10'000};  ///< a step that takes longer counts as failed
};

/// Serves doctors of other machines, one at a time, each for some minutes at most. Gives them the
/// facts of this machine, without serial numbers and addresses, and runs its NICs and memories with
/// theirs. Tells other doctors meanwhile that it is busy. Prints the reason of its end, and returns
/// the exit code.
int serve(const ServeOptions& options, const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
