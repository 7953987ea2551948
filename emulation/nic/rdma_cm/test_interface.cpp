// SPDX-License-Identifier: MIT
#include <cstdint>

#include "emulation/nic/rdma_cm/cm_lock.hpp"
#include "emulation/nic/rdma_cm/connection.hpp"

/// What tests reach with dlsym.
using hbmwire::emulation::nic::CmLock;
using hbmwire::emulation::nic::CmTables;
using hbmwire::emulation::nic::Process;
using hbmwire::emulation::nic::reap_the_dead;
using hbmwire::emulation::nic::tables_of;

/// How long a peer of this fabric may take to answer; 0: as long as the kernel waits. False before
/// this process opened an event channel.
extern "C" [[gnu::visibility("default")]] bool hbmwire_cm_set_response_timeout(std::uint64_t ms) {
  Process* const process = Process::current();
  if (process == nullptr) return false;
  const CmLock lock(*process);
  if (!lock.held()) return false;
  tables_of(*process).response_timeout_ms = ms;
  return true;
}

/// Records that the fabric has in use: ids, event channels, events and multicast groups together.
/// What dead processes left is freed when it is in the way, and here.
extern "C" [[gnu::visibility("default")]] unsigned hbmwire_cm_live_records() {
  Process* const process = Process::current();
  if (process == nullptr) return 0;
  reap_the_dead(*process);
  const CmLock lock(*process);
  if (!lock.held()) return ~0U;
  const CmTables& tables = tables_of(*process);
  unsigned count = 0;
  for (std::uint32_t i = 1; i < tables.id_use.end; ++i) count += tables.keys[i].claimed;
  for (std::uint32_t i = 1; i < tables.channel_use.end; ++i) count += tables.channels[i].claimed;
  for (std::uint32_t i = 1; i < tables.event_use.end; ++i) count += tables.events[i].claimed;
  for (std::uint32_t i = 1; i < tables.multicast_use.end; ++i) {
    count += tables.multicasts[i].claimed;
  }
  return count;
}
