// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/events.hpp"

#include <algorithm>
#include <span>

#include "emulation/common/fault_step.hpp"

namespace hbmwire::emulation::nic {

namespace {

/// Writes an event. If it does not fit, sets `pending_bit` before clearing `writing`, which
/// may_be_pending() relies on. Then tries a second time: the owner may have made room before it
/// could see the bit, and would not look again.
void write_event(Process& process, std::uint32_t owner, EventSource& source,
                 std::span<const std::byte> record, std::uint32_t pending_bit) {
  const std::atomic_ref writing(source.writing);
  writing.store(1, std::memory_order_relaxed);
  Fifos::Written written = process.fifos().write(owner, source.channel, record);
  fault_step("event_written");
  if (written == Fifos::Written::full) {
    const std::uint32_t before = source.pending;
    set_pending(process, owner, source, before | pending_bit);
    written = process.fifos().write(owner, source.channel, record);
    if (written == Fifos::Written::yes) set_pending(process, owner, source, before);
  }
  if (written == Fifos::Written::yes) ++source.written;
  writing.store(0, std::memory_order_release);
}

/// Removes from the channel of `source` the Records that `is_own` returns true for.
template <typename Record, typename IsOwn>
std::uint32_t withdraw(Process& process, EventSource& source, IsOwn is_own) {
  if (source.written == 0 && source.writing == 0) return 0;
  const std::uint32_t dropped =
      process.fifos().filter<Record>(process.slot(), source.channel, is_own);
  return source.written - std::min(dropped, source.written);
}

}  // namespace

/// If a process is killed in here, the count stays too high. That only costs its owner time.
void set_pending(Process& process, std::uint32_t owner, EventSource& source,
                 std::uint32_t pending) {
  auto& sources = process.shared().processes[owner].full_sources;
  const std::uint32_t before = source.pending;
  if (before == 0 && pending != 0) sources.fetch_add(1);
  std::atomic_ref(source.pending).store(pending, std::memory_order_relaxed);
  if (before != 0 && pending == 0) sources.fetch_sub(1);
}

void raise_async(Process& process, std::uint32_t owner, EventSource& source, ibv_event_type type) {
  if (source.channel == 0) return;
  const AsyncRecord record{source.cookie, static_cast<std::uint32_t>(type), 0};
  write_event(process, owner, source, std::as_bytes(std::span(&record, 1)),
              1U << static_cast<unsigned>(type));
}

void raise_on_qp(Process& process, QpRecord& qp, ibv_event_type type) {
  raise_async(process, qp.owner.load(), qp.events, type);
  if (qp.type != IBV_QPT_XRC_RECV) return;
  SharedState& shared = process.shared();
  const std::uint32_t qpn = qp.qpn.load();
  for (XrcHandleRecord& handle : in_use(shared.xrc_handles, shared.uses.xrc_handles)) {
    if (qpn != 0 && handle.qpn.load() == qpn)
      raise_async(process, handle.owner.load(), handle.events, type);
  }
}

void raise_completion(Process& process, std::uint32_t owner, EventSource& source) {
  if (source.channel == 0) return;
  write_event(process, owner, source, std::as_bytes(std::span(&source.cookie, 1)), 1);
}

void retry_async(Process& process, std::uint32_t owner, EventSource& source) {
  const std::uint32_t pending = source.pending;
  set_pending(process, owner, source, 0);
  for (unsigned type = 0; type < 32; ++type) {
    if ((pending >> type & 1U) != 0)
      raise_async(process, owner, source, static_cast<ibv_event_type>(type));
  }
}

void retry_completion(Process& process, std::uint32_t owner, EventSource& source) {
  if (source.pending == 0) return;
  set_pending(process, owner, source, 0);
  raise_completion(process, owner, source);
}

std::uint32_t withdraw_async(Process& process, EventSource& source) {
  return withdraw<AsyncRecord>(
      process, source, [&](const AsyncRecord& record) { return record.element == source.cookie; });
}

std::uint32_t withdraw_completions(Process& process, EventSource& source) {
  return withdraw<std::uint64_t>(process, source,
                                 [&](std::uint64_t cookie) { return cookie == source.cookie; });
}

}  // namespace hbmwire::emulation::nic
