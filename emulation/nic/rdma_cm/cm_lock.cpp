// SPDX-License-Identifier: MIT
#include "emulation/nic/rdma_cm/cm_lock.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

#include "emulation/common/fault_step.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"
#include "emulation/nic/rdma_cm/event_queue.hpp"

namespace hbmwire::emulation::nic {
namespace {

void set(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(word).store(value);
}

/// Restores both ends. repair() drops the step's event when it goes through the queues.
void undo(CmTables& tables, const CmStep& step) {
  for (std::size_t i = 0; i < step.ends.size(); ++i) {
    if (step.ends[i] != 0) tables.ids[step.ends[i]] = step.before[i];
  }
}

/// Rebuilds counts and lists from the records.
void count_again(CmTables& tables) {
  tables.channel_use.rebuild([&](std::uint32_t i) { return tables.channels[i].claimed != 0; });
  tables.id_use.rebuild([&](std::uint32_t i) { return tables.keys[i].claimed != 0; });
  tables.event_use.rebuild([&](std::uint32_t i) { return tables.events[i].claimed != 0; });
  tables.multicast_use.rebuild([&](std::uint32_t i) { return tables.multicasts[i].claimed != 0; });
  tables.listening.keep([&](std::uint32_t i) { return tables.keys[i].listening != 0; });
  std::fill(std::begin(tables.holders), std::end(tables.holders), 0);
  for (CmChannel& channel : in_use(tables.channels, tables.channel_use)) channel.ids = 0;
  for (CmKey& key : in_use(tables.keys, tables.id_use)) {
    ++tables.holders[key.bound_port];
    ++tables.channels[tables.ids[index_in(tables.keys, key)].channel].ids;
  }
}

/// Repairs the tables after the death of a holder. At worst it has left a step half done, an event
/// in no queue, a wrong end of a queue, a request without a queued event and wrong counts.
void repair(Process& process) {
  CmTables& tables = tables_of(process);
  const bool undoes = tables.step.under_way != 0;
  if (undoes) undo(tables, tables.step);
  count_again(tables);
  std::vector<bool> queued(kMaxCmEvents);
  std::vector<bool> requested(kMaxCmIds);
  for (CmChannel& channel : in_use(tables.channels, tables.channel_use)) {
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
  for (CmEvent& event : in_use(tables.events, tables.event_use)) {
    const auto index = index_in(tables.events, event);
    if (!queued[index]) release_event(tables, index);
  }
  // A step that has ended may still owe the FIFO its event's byte.
  if (!undoes && queued[tables.step.event]) announce(process, tables.step.event);
  set(tables.step.event, 0);
  set(tables.step.under_way, 0);
  for (CmKey& key : in_use(tables.keys, tables.id_use)) {
    const auto index = index_in(tables.keys, key);
    if (tables.ids[index].known == 0 && !requested[index]) destroy_id(process, index);
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
  const std::uint32_t index = tables.id_use.claim();
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
  set_channel(tables, tables.ids[index], 0);
  set_listening(tables, index, false);
  if (const std::uint16_t port = tables.keys[index].bound_port; port != 0) --tables.holders[port];
  tables.keys[index] = CmKey{};
  tables.id_use.release(index);
}

void set_channel(CmTables& tables, CmId& id, std::uint32_t channel) {
  if (id.channel != 0) --tables.channels[id.channel].ids;
  id.channel = channel;
  if (channel != 0) ++tables.channels[channel].ids;
}

void set_listening(CmTables& tables, std::uint32_t index, bool listens) {
  // This order keeps the set a superset of the ids that listen, even if this process dies between
  // two steps.
  if (listens) tables.listening.add(index);
  tables.keys[index].listening = listens ? 1 : 0;
  if (!listens) tables.listening.remove(index);
}

CmId* find(CmTables& tables, const CmReference& reference) {
  if (reference.index == 0 || reference.index >= kMaxCmIds) return nullptr;
  if (tables.keys[reference.index].claimed == 0) return nullptr;
  CmId& id = tables.ids[reference.index];
  return id.generation == reference.generation ? &id : nullptr;
}

}  // namespace hbmwire::emulation::nic
