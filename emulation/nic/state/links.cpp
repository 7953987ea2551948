// SPDX-License-Identifier: MIT
#include "emulation/nic/state/links.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <span>
#include <system_error>

#include "emulation/nic/state/async_record.hpp"
#include "emulation/nic/state/counter_files.hpp"
#include "emulation/nic/state/shared_state.hpp"
#include "emulation/nic/state/state_file.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// Maps the state of a fabric that this process is not a member of.
class Visit {
 public:
  explicit Visit(const std::filesystem::path& fabric)
      : error_(open_state(fabric, file_)), fifos_(fabric / "processes") {}

  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  Visit(Visit&&) = delete;
  Visit& operator=(Visit&&) = delete;

  ~Visit() { close_state(file_); }

  [[nodiscard]] int error() const { return error_; }

  [[nodiscard]] SharedState& shared() const { return *reinterpret_cast<SharedState*>(file_.base); }

  Fifos& fifos() { return fifos_; }

 private:
  StateFile file_;
  int error_;
  Fifos fifos_;
};

}  // namespace

int set_link(const std::filesystem::path& fabric, std::uint32_t fabric_port, bool up) {
  if (fabric_port == 0 || fabric_port >= kMaxFabricPorts) return EINVAL;
  Visit visit(fabric);
  if (visit.error() != 0) return visit.error();
  forget_rises(visit.shared(), fabric_port);
  return change_link({fabric, visit.shared(), visit.fifos()}, fabric_port, up);
}

int change_link(const LinkState& state, std::uint32_t fabric_port, bool up) {
  SharedState& shared = state.shared;
  PortRecord& port = shared.ports[fabric_port];
  std::uint32_t changes = port.link_changes.load();
  // An even number of changes: the link is up.
  while ((changes % 2 == 0) != up &&
         !port.link_changes.compare_exchange_weak(changes, changes + 1)) {
  }
  shared.header.conditions.fetch_add(1);
  publish_counters(state.fabric, port);  // link_downed
  int error = 0;
  // Notifies all contexts even if nothing changed now: the process that made the last change may
  // have died before it notified all, or a stopped process may have held a lock.
  for (ContextRecord& context : touched(shared.contexts, shared.header.next_context)) {
    if (context.claimed.load() == 0) continue;
    const Hold guard(context.mutex);
    if (!guard.held()) {
      error = EBUSY;
    } else if (context.claimed.load() != 0) {
      tell_of_links(shared, state.fifos, context);
    }
  }
  const std::uint32_t end = shared.header.processes_end.load();
  for (std::uint32_t slot = 0; slot < end; ++slot) {
    if (shared.processes[slot].claimed.load() != 0) poke_process(shared, state.fifos, slot);
  }
  return error;
}

void raise_link_at(SharedState& shared, std::uint32_t fabric_port, std::uint64_t due_ns) {
  for (LinkTimer& timer : shared.header.link_timers) {
    std::uint64_t free = LinkTimer::kFree;
    if (!timer.due_ns.compare_exchange_strong(free, LinkTimer::kTaken)) continue;
    timer.port.store(fabric_port);
    timer.due_ns.store(due_ns);
    return;
  }
}

void forget_rises(SharedState& shared, std::uint32_t fabric_port) {
  for (LinkTimer& timer : shared.header.link_timers) {
    std::uint64_t due = timer.due_ns.load();
    if (due == LinkTimer::kFree || due == LinkTimer::kTaken) continue;
    if (timer.port.load() == fabric_port)
      timer.due_ns.compare_exchange_strong(due, LinkTimer::kFree);
  }
}

std::uint64_t raise_due_links(const LinkState& state, std::uint64_t now_ns) {
  std::uint64_t next = 0;
  for (LinkTimer& timer : state.shared.header.link_timers) {
    std::uint64_t due = timer.due_ns.load();
    if (due == LinkTimer::kFree || due == LinkTimer::kTaken) continue;
    if (due > now_ns) {
      next = next == 0 ? due : std::min(next, due);
    } else if (timer.due_ns.compare_exchange_strong(due, LinkTimer::kTaken)) {
      change_link(state, timer.port.load(), true);
      timer.due_ns.store(LinkTimer::kFree);
    }
  }
  return next;
}

int renew_ports(const std::filesystem::path& fabric, std::uint32_t first, std::uint32_t count) {
  std::error_code ignored;
  if (!std::filesystem::exists(fabric / "nic.shm", ignored)) return 0;  // no NIC was opened yet
  const Visit visit(fabric);
  if (visit.error() != 0) return visit.error();
  for (std::uint32_t port = first; port < first + count && port < kMaxFabricPorts; ++port) {
    PortRecord& record = visit.shared().ports[port];
    record.link_changes.store(0);
    for (auto& counter : record.counters) counter.store(0);
    std::fill(std::begin(record.published), std::end(record.published), 0);
  }
  return 0;
}

void tell_of_links(const SharedState& shared, Fifos& fifos, ContextRecord& context) {
  for (std::uint32_t i = 0; i < kMaxNicPorts; ++i) {
    if (context.ports[i] == 0) continue;
    const std::uint32_t changes = shared.ports[context.ports[i]].link_changes.load();
    // Down and up alternate, so the number of a change tells its direction. A context that is ahead
    // of the port belongs to a node that is gone.
    while (static_cast<std::int32_t>(changes - context.told[i]) > 0) {
      const bool down = context.told[i] % 2 == 0;
      const AsyncRecord record{
          i + 1, static_cast<std::uint32_t>(down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE), 0};
      const auto written =
          fifos.write(context.owner, context.channel, std::as_bytes(std::span(&record, 1)));
      if (written != Fifos::Written::yes) return;  // its owner's next read makes room
      ++context.told[i];
    }
  }
}

void poke_process(SharedState& shared, Fifos& fifos, std::uint32_t slot) {
  ProcessRecord& record = shared.processes[slot];
  const std::uint64_t channel = record.wake_channel.load();
  // One byte in the FIFO is enough: no second one while `poked` is set.
  if (channel == 0 || record.poked.exchange(1) != 0) return;
  constexpr std::byte kAnything{1};
  fifos.write(slot, channel, std::span(&kAnything, 1));
}

}  // namespace hbmwire::emulation::nic
