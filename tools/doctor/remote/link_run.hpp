// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>

#include "tools/common/failure.hpp"
#include "tools/doctor/remote/agent.hpp"
#include "tools/doctor/remote/link_pair.hpp"

namespace hbmwire::tools::doctor {

/// How one pair is gone through.
struct LinkRunOptions {
  std::chrono::milliseconds step{10'000};  ///< an answer that takes longer is a failure
  std::chrono::milliseconds measure{300};  ///< the timed part of each side, at most
  int cancel_fd = -1;
  bool emulated = false;
  std::function<void(const char* step)> on_step = {};  ///< called as each begins
};

/// Takes a pair of ends through the life of a buffer: each registers its memory and makes a queue
/// pair, these are connected, bytes go both ways by writes and by reads and are compared where they
/// arrive, and both are timed. Where packets of the ports' MTU do not arrive, smaller ones are
/// tried. Errors: interrupted; the conversation has ended.
Outcome<LinkPair> run_link(LinkPair pair, Agent& here, Agent& there, const LinkRunOptions& options);

}  // namespace hbmwire::tools::doctor
