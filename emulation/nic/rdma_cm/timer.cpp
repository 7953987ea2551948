// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/timer.hpp"

#include <algorithm>
#include <chrono>
#include <set>

#include "emulation/nic/rdma_cm/addressing.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/state/thread.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// How often peers are checked and requests are sent again: 200 ms.
constexpr std::uint64_t kPeriodNs = 200'000'000;

/// Whether the id may still need the timer.
bool needs_timer(const CmId& id) {
  if (id.deadline_ns != 0 || id.request_waits != 0) return true;
  switch (id.cm) {
    case CmState::none:
    case CmState::idle:
      return false;
    default:
      return true;
  }
}

}  // namespace

void CmTimer::watch() {
  const std::lock_guard guard(mutex_);
  ++watched_;
  changed_.notify_one();
  if (started_) return;
  // If no thread can be started, the next call tries again.
  started_ = start_thread(
      "hbmwire-cm", [](void* self) { static_cast<CmTimer*>(self)->run(); }, this);
}

void CmTimer::run() {
  std::unique_lock lock(mutex_);
  while (!cm_.process.abandoned()) {
    const std::uint64_t seen = watched_;
    lock.unlock();
    const std::uint64_t pause_ns = tick();
    lock.lock();
    const auto changed = [&] { return watched_ != seen; };
    if (pause_ns == 0) {
      changed_.wait(lock, changed);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(pause_ns), changed);
    }
  }
}

std::uint64_t CmTimer::tick_one(CmId& id, std::uint64_t now) {
  retry_resolution(cm_, id);
  if (id.deadline_ns != 0 && id.deadline_ns <= now) deadline_passed(cm_.process, id);
  retry_request(cm_, id);
  if (!needs_timer(id)) return 0;
  return id.deadline_ns > now ? std::min(id.deadline_ns - now, kPeriodNs) : kPeriodNs;
}

std::uint64_t CmTimer::tick() {
  Process& process = cm_.process;
  CmTables& tables = cm_.tables();
  std::uint64_t pause_ns = 0;
  std::set<std::uint32_t> dead;
  {
    const CmLock guard(process);
    if (!guard.held()) return kPeriodNs;
    const std::uint64_t now = now_ns();
    for (const CmKey& key : in_use(tables.keys, tables.id_use)) {
      if (key.claimed == 0 || key.owner != process.slot()) continue;
      CmId& id = tables.ids[index_in(tables.keys, key)];
      if (!needs_timer(id)) continue;
      const std::uint64_t next = tick_one(id, now);
      if (find(tables, id.peer) != nullptr) {
        const std::uint32_t owner = tables.keys[id.peer.index].owner;
        if (!process.alive(owner)) dead.insert(owner);
      }
      if (next != 0) pause_ns = pause_ns == 0 ? next : std::min(pause_ns, next);
    }
  }
  for (const std::uint32_t slot : dead) process.reap(slot);
  return pause_ns;
}

}  // namespace hbmwire::emulation::nic
