// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/doctor/pairs/child.hpp"
#include "tools/doctor/pairs/plan.hpp"

namespace hbmwire::tools::doctor {

/// One memory of one of two machines, in a process of its own. It executes the commands of the
/// doctor that runs the pairs, on the same machine or, through `doctor --serve`, on the other one.
/// Commands from the other machine are foreign. Sends {"open": true} or {"error": ...} first, and
/// then one answer to each command, which is {"error": ...} if the command fails.
///
/// | command                                      | answer                                        |
/// |----------------------------------------------|-----------------------------------------------|
/// | {"do": "nic", "nic": NAME, "mtu": BYTES}     | {"end": BASE64, "path", "distance",           |
/// | registers with it, and makes a queue pair;   |  "possible", "limit", "mtu"}, or              |
/// | MTU 0: the port's                            | {"staged": ERROR}                             |
/// | {"do": "connect", "end": BASE64}             | {"done": true}                                |
/// | {"do": "fill", "seed": N}                    | {"done": true}: the window to read from       |
/// | {"do": "poison", "seed": N}                  | {"done": true}: the window to write to        |
/// | {"do": "move", "write": BOOL}                | {"done": true}: all of a window, once         |
/// | {"do": "compare", "seed": N, "what": TEXT}   | {"compared": N, "wrong": N, "differs": ERROR} |
/// | {"do": "time", "ms": N}                      | {"write", "read": bytes a second, "latency"}  |
/// | {"do": "drop"}                               | {"done": true}: queue pair and registration   |
struct AgentProcess {
  PlanMemory memory;
  std::vector<std::string> nics;           ///< the NICs that commands may name
  std::chrono::milliseconds step{10'000};  ///< a call that waits longer has failed
  double memcpy_bytes_per_second = 0;      ///< as in Plan

  void operator()(Voice& voice, int cancel_fd) const;
};

}  // namespace hbmwire::tools::doctor
