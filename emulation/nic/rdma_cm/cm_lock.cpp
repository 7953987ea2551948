// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/cm_lock.hpp"

#include <vector>

#include "emulation/common/fault_step.hpp"

namespace hbmwire::emulation::nic {
namespace {

/// A holder that died has left at worst: an event that no queue leads to, the end of a queue not
/// noted, a request whose event was never queued, and a use that is behind.
void repair(CmTables& tables) {
  tables.channel_use.lowest_free = tables.id_use.lowest_free = 0;
  tables.event_use.lowest_free = tables.multicast_use.lowest_free = 0;
  std::vector<bool> queued(tables.event_use.end + 1U);
  std::vector<bool> requested(tables.id_use.end + 1U);
  for (std::uint32_t i = 1; i < tables.channel_use.end; ++i) {
    CmChannel& channel = tables.channels[i];
    if (channel.claimed == 0) continue;
    channel.last_event = 0;
    channel.events = 0;
    for (std::uint32_t at = channel.first_event; at != 0 && !queued[at];
         at = tables.events[at].next) {
      queued[at] = true;
      channel.last_event = at;
      ++channel.events;
      if (tables.events[at].request < requested.size()) requested[tables.events[at].request] = true;
    }
    if (channel.last_event != 0) tables.events[channel.last_event].next = 0;
  }
  for (std::uint32_t i = 1; i < tables.event_use.end; ++i) {
    if (!queued[i]) tables.events[i].claimed = 0;
  }
  for (std::uint32_t i = 1; i < tables.id_use.end; ++i) {
    if (tables.keys[i].claimed != 0 && tables.ids[i].known == 0 && !requested[i]) {
      release_id(tables, i);
    }
  }
}

}  // namespace

CmLock::CmLock(Process& process) : tables_(tables_of(process)), hold_(tables_.mutex) {
  if (!held()) return;
  if (tables_.busy != 0) repair(tables_);
  std::atomic_ref<std::uint32_t>(tables_.busy).store(1);
  fault_step("cm_locked");
}

CmLock::~CmLock() {
  if (held()) std::atomic_ref<std::uint32_t>(tables_.busy).store(0);
}

std::uint32_t claim_id(CmTables& tables, std::uint32_t owner) {
  const std::uint32_t index = find_free(tables.keys, tables.id_use);
  if (index == 0) return 0;
  CmId& id = tables.ids[index];
  const std::uint32_t generation = id.generation + 1;
  id = CmId{};
  id.generation = generation;
  CmKey& key = tables.keys[index];
  key = CmKey{};
  key.owner = owner;
  key.claimed = 1;
  return index;
}

void release_id(CmTables& tables, std::uint32_t index) {
  ++tables.ids[index].generation;
  tables.keys[index] = CmKey{};
  note_free(tables.id_use, index);
}

CmId* find(CmTables& tables, const CmReference& reference) {
  if (reference.index == 0 || reference.index >= kMaxCmIds) return nullptr;
  if (tables.keys[reference.index].claimed == 0) return nullptr;
  CmId& id = tables.ids[reference.index];
  return id.generation == reference.generation ? &id : nullptr;
}

}  // namespace hbmwire::emulation::nic
