// SPDX-License-Identifier: MIT
#include "emulation/nic/queue/events.hpp"

#include <span>

namespace hbmwire::emulation::nic {

void raise_async(Process& process, std::uint32_t owner, EventSource& source, ibv_event_type type) {
  if (source.channel == 0) return;
  const AsyncRecord record{source.cookie, static_cast<std::uint32_t>(type), 0};
  switch (process.fifos().write(owner, source.channel, std::as_bytes(std::span(&record, 1)))) {
    case Fifos::Written::yes:
      ++source.written;
      break;
    case Fifos::Written::full:
      source.pending |= 1U << static_cast<unsigned>(type);
      break;
    case Fifos::Written::gone:
      break;
  }
}

void raise_on_qp(Process& process, QpRecord& qp, ibv_event_type type) {
  raise_async(process, qp.owner.load(), qp.events, type);
  if (qp.type != IBV_QPT_XRC_RECV) return;
  SharedState& shared = process.shared();
  const std::uint32_t qpn = qp.qpn.load();
  for (XrcHandleRecord& handle : touched(shared.xrc_handles, shared.header.next_xrc_handle)) {
    if (qpn != 0 && handle.qpn.load() == qpn)
      raise_async(process, handle.owner.load(), handle.events, type);
  }
}

void raise_completion(Process& process, std::uint32_t owner, EventSource& source) {
  if (source.channel == 0) return;
  switch (
      process.fifos().write(owner, source.channel, std::as_bytes(std::span(&source.cookie, 1)))) {
    case Fifos::Written::yes:
      ++source.written;
      break;
    case Fifos::Written::full:
      source.pending = 1;
      break;
    case Fifos::Written::gone:
      break;
  }
}

void retry_async(Process& process, std::uint32_t owner, EventSource& source) {
  const std::uint32_t pending = source.pending;
  source.pending = 0;
  for (unsigned type = 0; type < 32; ++type) {
    if ((pending >> type & 1U) != 0)
      raise_async(process, owner, source, static_cast<ibv_event_type>(type));
  }
}

void retry_completion(Process& process, std::uint32_t owner, EventSource& source) {
  if (source.pending == 0) return;
  source.pending = 0;
  raise_completion(process, owner, source);
}

std::uint32_t withdraw_async(Process& process, EventSource& source) {
  if (source.written == 0) return 0;
  return source.written - process.fifos().filter<AsyncRecord>(
                              process.slot(), source.channel, [&](const AsyncRecord& record) {
                                return record.element == source.cookie;
                              });
}

std::uint32_t withdraw_completions(Process& process, EventSource& source) {
  if (source.written == 0) return 0;
  return source.written - process.fifos().filter<std::uint64_t>(
                              process.slot(), source.channel,
                              [&](std::uint64_t cookie) { return cookie == source.cookie; });
}

}  // namespace hbmwire::emulation::nic
