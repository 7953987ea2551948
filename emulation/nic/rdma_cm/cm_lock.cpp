// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/cm_lock.hpp"

#include <vector>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"

namespace hbmwire::emulation::nic {
namespace {

void set(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(word).store(value);
}

/// Both ends are as before; the event goes when queues are put in order.
void undo(CmTables& tables, const CmStep& step) {
  for (std::size_t i = 0; i < step.ends.size(); ++i) {
    if (step.ends[i] != 0) tables.ids[step.ends[i]] = step.before[i];
  }
}

/// A holder that died has left at worst: a step half taken, an event that no queue leads to, the
/// end of a queue not noted, a request whose event is not queued, and a use that is behind.
void repair(Process& process) {
  CmTables& tables = tables_of(process);
  const bool undoes = tables.step.under_way != 0;
  if (undoes) undo(tables, tables.step);
  tables.channel_use.lowest_free = tables.id_use.lowest_free = 0;
  tables.event_use.lowest_free = tables.multicast_use.lowest_free = 0;
  std::vector<bool> queued(tables.event_use.end + 1U);
  std::vector<bool> requested(tables.id_use.end + 1U);
  for (std::uint32_t i = 1; i < tables.channel_use.end; ++i) {
    CmChannel& channel = tables.channels[i];
    if (channel.claimed == 0) continue;
    channel.last_event = 0;
    channel.events = 0;
    std::uint32_t* link = &channel.first_event;
    while (*link != 0 && !queued[*link]) {
      const CmEvent& event = tables.events[*link];
      if (undoes && *link == tables.step.event) {
        *link = event.next;
        continue;
      }
      queued[*link] = true;
      channel.last_event = *link;
      ++channel.events;
      if (find(tables, event.request) != nullptr) requested[event.request.index] = true;
      link = &tables.events[*link].next;
    }
    if (channel.last_event != 0) tables.events[channel.last_event].next = 0;
  }
  for (std::uint32_t i = 1; i < tables.event_use.end; ++i) {
    if (!queued[i]) tables.events[i].claimed = 0;
  }
  if (!undoes && queued[tables.step.event]) announce(process, tables.step.event);
  set(tables.step.event, 0);
  set(tables.step.under_way, 0);
  for (std::uint32_t i = 1; i < tables.id_use.end; ++i) {
    if (tables.keys[i].claimed != 0 && tables.ids[i].known == 0 && !requested[i]) {
      destroy_id(process, i);
    }
  }
}

}  // namespace

CmLock::CmLock(Process& process) : tables_(tables_of(process)), hold_(tables_.mutex) {
  if (!held()) return;
  if (tables_.busy != 0) repair(process);
  set(tables_.busy, 1);
  fault_step("cm_locked");
}

CmLock::~CmLock() {
  if (held()) set(tables_.busy, 0);
}

CmWholeStep::CmWholeStep(Process& process, const CmId& one, const CmId* other)
    : process_(process), step_(tables_of(process).step) {
  const CmTables& tables = tables_of(process);
  step_.ends = {index_of(tables, one), other == nullptr ? 0 : index_of(tables, *other)};
  step_.before[0] = one;
  if (other != nullptr) step_.before[1] = *other;
  set(step_.under_way, 1);
}

CmWholeStep::~CmWholeStep() {
  set(step_.under_way, 0);
  if (step_.event == 0) return;
  fault_step("cm_telling");
  announce(process_, step_.event);
  set(step_.event, 0);
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
