// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <string_view>

#include "emulation/common/faults.hpp"
#include "emulation/nic/hook/command_hook.hpp"
#include "emulation/nic/memory/mover.hpp"
#include "emulation/nic/state/process.hpp"

/// What tests reach with dlsym: fail-the-n-th-call sweeps, and a count of what is left.
extern "C" [[gnu::visibility("default")]] long hbmwire_nic_fail_nth_call(long n, int error_number) {
  return static_cast<long>(
      hbmwire::emulation::FaultPlan::of_this_process().fail_nth_call(n, error_number));
}

/// Bytes of messages that this process has copied since the first call, which begins to count.
extern "C" [[gnu::visibility("default")]] unsigned long long hbmwire_nic_copied_bytes() {
  return hbmwire::emulation::nic::count_copied_bytes();
}

/// Objects of `kind` ("context", "pd", "mr", "cq", "qp", "channel", "ah", "srq", "xrcd",
/// "mw") that this process has; ~0 for
/// another kind.
extern "C" [[gnu::visibility("default")]] unsigned hbmwire_nic_live_objects(const char* kind) {
  using namespace hbmwire::emulation::nic;
  constexpr std::array<std::string_view, kObjectKinds> kNames{"context", "pd", "mr",  "cq",   "qp",
                                                              "channel", "ah", "srq", "xrcd", "mw"};
  const auto found = std::find(kNames.begin(), kNames.end(), std::string_view(kind));
  if (found == kNames.end()) return ~0U;
  const auto wanted = static_cast<ObjectKind>(found - kNames.begin());
  if (wanted == ObjectKind::channel) return static_cast<unsigned>(count_channels());
  const Process* process = Process::current();
  return process == nullptr ? 0 : process->live(wanted);
}
