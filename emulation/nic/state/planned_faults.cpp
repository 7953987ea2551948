// SPDX-License-Identifier: MIT
#include "emulation/nic/state/planned_faults.hpp"

#include <array>
#include <cerrno>
#include <mutex>
#include <set>

#include "emulation/nic/state/ports.hpp"

namespace hbmwire::emulation::nic {
namespace {

std::set<std::uint32_t> open_ports(Process& process) {
  SharedState& shared = process.shared();
  std::set<std::uint32_t> ports;
  for (ContextRecord& context : touched(shared.contexts, shared.header.next_context)) {
    if (context.claimed.load() == 0) continue;
    const std::lock_guard guard(context.mutex);
    if (context.claimed.load() == 0 || context.owner != process.slot()) continue;
    ports.insert(std::begin(context.ports), std::end(context.ports));
  }
  ports.erase(0);
  return ports;
}

CallFaults with_links_down(Process& process, const CallFaults& faults) {
  if (faults.link.down) {
    for (const std::uint32_t port : open_ports(process))
      take_link_down(process, port, faults.link.for_ns);
  }
  return faults;
}

}  // namespace

CallFaults planned_faults(Process& process, std::string_view call) {
  return with_links_down(process, FaultPlan::of_this_process().on_call(call));
}

CallFaults planned_data_path_faults(Process& process, std::string_view call) {
  return with_links_down(process, FaultPlan::of_this_process().on_data_path_call(call));
}

int planned_limit(const Process& process, ObjectKind kind) {
  if (!FaultPlan::plans(FaultRule::Point::creation)) return 0;
  static constexpr std::array<std::string_view, kObjectKinds> kNames{"", "pd", "mr",  "cq", "qp",
                                                                     "", "ah", "srq", "",   "mw"};
  const std::string_view name = kNames[static_cast<std::size_t>(kind)];
  return process.live(kind) >= FaultPlan::of_this_process().limit_of(name) ? ENOMEM : 0;
}

}  // namespace hbmwire::emulation::nic
