// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tools/common/interrupt.hpp"
#include "tools/common/output.hpp"
#include "tools/doctor/pairs/plan.hpp"

namespace hbmwire::tools::doctor {

/// The port of `doctor --serve` where none is given; the one after the seeds', which `server` has.
inline constexpr std::uint16_t kServePort = 20001;

struct ServeOptions {
  std::string bind;                        ///< empty: all addresses
  std::uint16_t port = kServePort;         ///< 0: a free one
  std::chrono::minutes time{60};           ///< it ends by itself after that
  Selection selection;                     ///< of this machine
  std::chrono::milliseconds step{10'000};  ///< a step that takes longer has failed
};

/// Answers doctors of other machines, one at a time and each for some minutes at most: what this
/// machine is, without serial numbers and addresses, and what its NICs and memories do with theirs.
/// Those that come meanwhile are told so. Returns the exit code, and prints what ends it.
int serve(const ServeOptions& options, const Interrupt& interrupt, Output& output);

}  // namespace hbmwire::tools::doctor
