// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <functional>

#include "tools/common/failure.hpp"
#include "tools/doctor/remote/agent.hpp"
#include "tools/doctor/remote/link_pair.hpp"

namespace hbmwire::tools::doctor {

/// How to run one pair.
struct LinkRunOptions {
  std::chrono::milliseconds step{10'000};  ///< an answer that takes longer is a failure
  std::chrono::milliseconds measure{300};  ///< the longest measurement of each side
  int cancel_fd = -1;
  bool emulated = false;
  std::function<void(const char* step)> on_step = {};  ///< called when a step begins
};

/// Runs one pair. Each end registers its memory and makes a queue pair, and the two are connected.
/// Bytes go both ways by writes and by reads, and are compared where they arrive; then both
/// directions are measured. If packets of the ports' MTU do not arrive, smaller MTUs are tried.
/// Errors: interrupted; the conversation has ended.
Outcome<LinkPair> run_link(LinkPair pair, Agent& here, Agent& there, const LinkRunOptions& options);

}  // namespace hbmwire::tools::doctor
