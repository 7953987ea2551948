// SPDX-License-Identifier: MIT
#include "tools/doctor/checks/gpu_driver.hpp"

#include <algorithm>

#include "tools/doctor/checks/kernel_facts.hpp"
#include "tools/doctor/checks/reading.hpp"

namespace hbmwire::tools::doctor {

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.129.03  Release Build ..." or
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ...".
NvidiaDriver nvidia_driver_of(Evidence& machine) {
  const Answer line = read_line(machine, "/proc/driver/nvidia/version");
  NvidiaDriver driver{.error = error_below(machine, "/proc/self", line.error), .text = line.value};
  driver.open = line.value.find("Open Kernel Module") != std::string::npos;
  for (const std::string_view word : words_in(line.value)) {
    if (std::ranges::count(word, '.') == 0) continue;
    if (const auto version = version_in(word)) {
      driver.release = version->first;
      break;
    }
  }
  return driver;
}

PeerModule nvidia_peer_module(Evidence& machine) {
  PeerModule module;
  for (const char* name : {"nvidia_peermem", "nv_peer_mem"}) {
    const auto loaded = has_module(machine, name);
    if (loaded.value_or(false)) return {.hidden = false, .name = name};
    module.hidden = module.hidden || !loaded;
  }
  return module;
}

}  // namespace hbmwire::tools::doctor
