// SPDX-License-Identifier: MIT
#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"

/// Functions that tests find with dlsym.
using hbmwire::emulation::nic::CmLock;
using hbmwire::emulation::nic::CmTables;
using hbmwire::emulation::nic::Process;
using hbmwire::emulation::nic::reap_the_dead;
using hbmwire::emulation::nic::tables_of;

/// Sets how long a peer of this fabric may take to answer; 0: as long as in the kernel. Returns
/// false if this process has not opened an event channel yet.
extern "C" [[gnu::visibility("default")]] bool hbmwire_cm_set_response_timeout(std::uint64_t ms) {
  Process* const process = Process::current();
  if (process == nullptr) return false;
  const CmLock lock(*process);
  if (!lock.held()) return false;
  tables_of(*process).response_timeout_ms = ms;
  return true;
}

/// The number of records that the fabric uses: ids, event channels, events and multicast groups
/// together. Records of dead processes are freed first.
extern "C" [[gnu::visibility("default")]] unsigned hbmwire_cm_live_records() {
  Process* const process = Process::current();
  if (process == nullptr) return 0;
  reap_the_dead(*process);
  const CmLock lock(*process);
  if (!lock.held()) return ~0U;
  const CmTables& tables = tables_of(*process);
  unsigned count = 0;
  const auto add = [&](const auto& records) {
    for (const auto& record : records) count += record.claimed;
  };
  add(in_use(tables.keys, tables.id_use));
  add(in_use(tables.channels, tables.channel_use));
  add(in_use(tables.events, tables.event_use));
  add(in_use(tables.multicasts, tables.multicast_use));
  return count;
}
